#pragma once

namespace ventris {

/// The parts of the page of a report before and after its data, one JSON object. The second part ends inside
/// of a script element, the third is that script and the end of the page.
extern const char* const kReportPageHead;
extern const char* const kReportPageTail;
extern const char* const kReportPageScript;

}  // namespace ventris
