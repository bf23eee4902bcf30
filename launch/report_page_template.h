#pragma once

namespace ventris {

/// The parts of the page of a report before and after its data, one JSON object. The second part ends inside
/// of a script element; the third, which shows translations, goes on with that script, and the fourth ends it
/// and the page.
extern const char* const kReportPageHead;
extern const char* const kReportPageTail;
extern const char* const kReportPageSamples;
extern const char* const kReportPageScript;

}  // namespace ventris
