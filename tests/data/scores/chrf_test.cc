// SPDX-License-Identifier: Apache-2.0
#include "data/scores/chrf.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "data/error.h"
#include "data/io/json_text.h"
#include "score_cases.h"

namespace ventris::data {
namespace {

using nlohmann::json;

double chrf(const std::string& hypothesis, const std::string& reference, const ChrfOptions& chrf) {
  MetricOptions options;
  options.chrf = chrf;
  return corpus_score(Metric(MetricKind::kChrf, options), {hypothesis}, {{reference}});
}

TEST(Chrf, AgreesWithTheTestVectorsOfSacrebleu) {
  const std::string path = shared_data("sacrebleu-vectors/vectors.jsonl");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  int compared = 0;
  for (const std::string& line : read_lines(path)) {
    const json vector = read_json(line);
    if (vector.at("metric") != "chrF") continue;
    const double score =
        corpus_score(metric_of("chrf", vector.at("params")), vector.at("hyps"), vector.at("refs"));
    EXPECT_NEAR(score, vector.at("sacrebleu_2.6.0").get<double>(), 1e-9) << line;
    EXPECT_NEAR(score, vector.at("expected").get<double>(), vector.at("tol").get<double>()) << line;
    ++compared;
  }
  EXPECT_EQ(compared, 14);
}

TEST(Chrf, CountsCharactersAndNotBytes) {
  // One of three characters is the same.
  EXPECT_NEAR(chrf("äöü", "ä\xE2\x82\xACß", {.char_order = 1}), 100.0 / 3, 1e-12);
  EXPECT_EQ(chrf("a b", "ab", {}), 100.0);
  EXPECT_LT(chrf("a b", "ab", {.whitespace = true}), 100.0);
  EXPECT_EQ(chrf("Ä", "ä", {}), 0.0);
  EXPECT_EQ(chrf("Ä", "ä", {.lowercase = true}), 100.0);
}

TEST(Chrf, WeighsRecallByBeta) {
  // Precision 1/2 and recall 1: F1 = 2/3, F3 = 10 * 0.5 / (9 * 0.5 + 1).
  EXPECT_NEAR(chrf("ab", "a", {.char_order = 1, .beta = 1}), 200.0 / 3, 1e-12);
  EXPECT_NEAR(chrf("ab", "a", {.char_order = 1, .beta = 3}), 100 * 5 / 5.5, 1e-12);
}

TEST(Chrf, NamesAndSignaturesAreThoseOfSacrebleu) {
  const ChrfOptions plus{.word_order = 2, .whitespace = true, .lowercase = true, .eps_smoothing = true};
  EXPECT_EQ(chrf_name({}), "chrF2");
  EXPECT_EQ(chrf_name(plus), "chrF2++");
  EXPECT_EQ(chrf_signature({}, 1), "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0");
  EXPECT_EQ(chrf_signature(plus, 3, "bs:1000|seed:12345"),
            "nrefs:3|bs:1000|seed:12345|case:lc|eff:no|nc:6|nw:2|space:yes|version:2.6.0");
}

TEST(Chrf, RefusesMissingReferences) {
  EXPECT_THROW(corpus_score(metric_of("chrf", json::object()), {"a"}, {}), DataError);
  EXPECT_THROW(corpus_score(metric_of("chrf", json::object()), {"a", "b"}, {{"a"}}), DataError);
}

}  // namespace
}  // namespace ventris::data
