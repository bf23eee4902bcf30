// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/scores/metric.h"
#include "tests/data/test_files.h"

namespace ventris::data {

using Lines = std::vector<std::string>;

/// Lines of a plain or gzipped file, split at LF only.
Lines read_lines(const std::string& path);

Lines split(const std::string& line, char separator);

BleuTokenizer tokenizer_of(const std::string& name);
BleuSmoothing smoothing_of(const std::string& name);

/// A metric with options by sacreBLEU's names, all of which may be absent.
Metric metric_of(const std::string& name, const nlohmann::json& given);

BleuScore corpus_bleu(const Lines& hypotheses, const std::vector<Lines>& references,
                      const BleuOptions& options);
double corpus_score(const Metric& metric, const Lines& hypotheses, const std::vector<Lines>& references);

}  // namespace ventris::data
