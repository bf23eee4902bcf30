// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ventris {

/// The parts of the page of a report before its data, one JSON object: up to the style of maps of attention,
/// and from there on.
extern const char* const kReportPageHead;
extern const char* const kReportPageBody;

/// The parts of its script, behind kPageBasics: which charts there are, translations, attention (behind
/// kAttentionViewScript), and the drawing of charts and tables, with the end of the page.
extern const char* const kReportPageCharts;
extern const char* const kReportPageSamples;
extern const char* const kReportPageAttention;
extern const char* const kReportPageScript;

}  // namespace ventris
