// SPDX-License-Identifier: Apache-2.0
#include "tests/data/scores/score_cases.h"

#include <zlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

namespace ventris::data {

Lines read_lines(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  EXPECT_NE(file, nullptr) << path;
  if (file == nullptr) return {};
  std::string text;
  char buffer[1 << 16];
  for (int n = gzread(file, buffer, sizeof buffer); n > 0; n = gzread(file, buffer, sizeof buffer))
    text.append(buffer, static_cast<size_t>(n));
  gzclose(file);
  Lines lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

Lines split(const std::string& line, char separator) {
  Lines fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, separator);) fields.push_back(field);
  return fields;
}

BleuTokenizer tokenizer_of(const std::string& name) {
  const auto tokenizer = bleu_tokenizer_named(name);
  EXPECT_TRUE(tokenizer) << "unknown tokenizer " << name;
  return tokenizer.value_or(BleuTokenizer::k13a);
}

BleuSmoothing smoothing_of(const std::string& name) {
  for (const auto s :
       {BleuSmoothing::kExp, BleuSmoothing::kFloor, BleuSmoothing::kAddK, BleuSmoothing::kNone}) {
    if (name == name_of(s)) return s;
  }
  ADD_FAILURE() << "unknown smoothing " << name;
  return BleuSmoothing::kExp;
}

Metric metric_of(const std::string& name, const nlohmann::json& given) {
  MetricOptions options;
  if (name == "bleu") {
    options.bleu.tokenizer = tokenizer_of(given.value("tokenize", "13a"));
    options.bleu.smoothing = smoothing_of(given.value("smooth_method", given.value("smooth", "exp")));
    if (given.contains("smooth_value") && !given.at("smooth_value").is_null())
      options.bleu.smoothing_value = given.at("smooth_value");
    options.bleu.lowercase = given.value("lowercase", false);
    options.bleu.effective_order = given.value("effective_order", false);
    options.bleu.max_ngram_order = given.value("max_ngram_order", 4);
    return Metric(MetricKind::kBleu, options);
  }
  EXPECT_EQ(name, "chrf");
  options.chrf.char_order = given.value("char_order", 6);
  options.chrf.word_order = given.value("word_order", 0);
  options.chrf.beta = given.value("beta", 2);
  options.chrf.whitespace = given.value("whitespace", !given.value("remove_whitespace", true));
  options.chrf.lowercase = given.value("lowercase", false);
  options.chrf.eps_smoothing = given.value("eps_smoothing", false);
  return Metric(MetricKind::kChrf, options);
}

BleuScore corpus_bleu(const Lines& hypotheses, const std::vector<Lines>& references,
                      const BleuOptions& options) {
  const Metric metric(MetricKind::kBleu, {.bleu = options, .chrf = {}});
  return bleu_score(metric.count(hypotheses, references).sums(), options);
}

double corpus_score(const Metric& metric, const Lines& hypotheses, const std::vector<Lines>& references) {
  return metric.score(metric.count(hypotheses, references).sums());
}

}  // namespace ventris::data
