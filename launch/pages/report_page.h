// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launch/pages/run_record.h"

namespace ventris {

/// Columns of a curve on the page: more than the pixels of most screens. Of the values of a column the lowest
/// and the highest are kept, as they were logged.
inline constexpr size_t kReportColumns = 1500;
/// Marks of one run on the page; more of them would hide each other.
inline constexpr size_t kReportMarks = 500;

/// At most two values for each column of steps, with the first and the last: all of them if they are few.
MetricsSeries downsampled(const MetricsRecord& record, const MetricsSeries& series, size_t columns);

/// One self-contained HTML file with the curves, marks and options of runs, without libraries or network
/// access. Text of files is shown literally, never interpreted as markup.
/// `every`: the page loads itself again after so many seconds; 0: never.
std::string report_page(const std::vector<RunRecord>& runs, int every);

}  // namespace ventris
