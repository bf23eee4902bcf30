// SPDX-License-Identifier: Apache-2.0
#include "launch/prepare_report.h"

#include <fmt/core.h>

#include <cstdint>

#include "launch/output.h"

namespace ventris {

namespace {

nlohmann::json to_json(const data::CharacterCounts& counts) {
  nlohmann::json list = nlohmann::json::object();
  for (const auto& [character, count] : counts)
    list[fmt::format("U+{:04X}", static_cast<uint32_t>(character))] = count;
  return list;
}

double mean_weight(const data::PrepareCounts& counts) {
  return counts.kept == 0 ? 0.0 : counts.weights / static_cast<double>(counts.kept);
}

nlohmann::json to_json(const data::PrepareCounts& counts) {
  return {{"read", counts.read},
          {"kept", counts.kept},
          {"empty", counts.empty},
          {"overlap", counts.overlap},
          {"too_long", counts.too_long},
          {"bad_ratio", counts.bad_ratio},
          {"duplicate", counts.duplicate},
          {"near_duplicate", counts.near_duplicate},
          {"repaired_crlf", counts.repaired_crlf},
          {"repaired_nul", counts.repaired_nul},
          {"repaired_bom", counts.repaired_bom},
          {"weights_mean", mean_weight(counts)},
          {"source_words", counts.source_tokens},
          {"target_words", counts.target_tokens},
          {"unknown_words", counts.unknown_tokens},
          {"unknown_characters", to_json(counts.unknown_characters)}};
}

std::string describe_counts(const std::string& name, const data::PrepareCounts& counts, bool cut) {
  std::string text =
      fmt::format("{}: {} pairs read, {} kept ({} source tokens, {} target tokens, {} unknown)\n", name,
                  grouped(counts.read), grouped(counts.kept), grouped(counts.source_tokens),
                  grouped(counts.target_tokens), grouped(counts.unknown_tokens));
  const auto line = [&text](int64_t count, const char* what) {
    if (count > 0) text += fmt::format("  {} {}\n", grouped(count), what);
  };
  line(counts.empty, "dropped: a side is empty");
  line(counts.overlap, "dropped: a side is a line of the validation or a test set");
  line(counts.too_long, cut ? "cut: longer than --max-length" : "dropped: longer than --max-length");
  line(counts.bad_ratio, "dropped: the lengths differ by more than --max-length-ratio");
  line(counts.duplicate, "dropped: duplicates");
  line(counts.near_duplicate, "dropped: near duplicates");
  line(counts.repaired_crlf, "repaired: carriage return removed from the line end");
  line(counts.repaired_nul, "repaired: NUL bytes replaced by spaces");
  line(counts.repaired_bom, "repaired: byte order mark removed from the beginning of a file");
  if (!counts.unknown_characters.empty())
    text += fmt::format("  unknown to the vocabulary: {}\n", data::listing(counts.unknown_characters));
  return text;
}

std::string describe_counts(const data::PreparedCorpus& prepared) {
  const data::TrainingCorpus& corpus = prepared.corpus;
  std::string text = describe_counts(corpus.name, prepared.counts, false);
  if (!corpus.source_tag.empty()) text += fmt::format("  tag of the source: {}\n", corpus.source_tag);
  if (!corpus.target_tag.empty()) text += fmt::format("  tag of the target: {}\n", corpus.target_tag);
  const double mean = mean_weight(prepared.counts);
  if (mean != 1.0) text += fmt::format("  weights: {:.4g} in the mean\n", mean);
  return text;
}

}  // namespace

nlohmann::json prepare_json(const data::PrepareReport& report) {
  nlohmann::json corpora = nlohmann::json::array();
  for (const data::PreparedCorpus& prepared : report.corpora) {
    nlohmann::json entry = to_json(prepared.counts);
    entry["name"] = prepared.corpus.name;
    entry["source_tag"] = prepared.corpus.source_tag;
    entry["target_tag"] = prepared.corpus.target_tag;
    corpora.push_back(entry);
  }
  nlohmann::json result = {{"digest", report.digest},
                           {"vocab_size", report.vocab_size},
                           {"tokenizer_sentences", report.tokenizer_sentences},
                           {"corpora", corpora},
                           {"train", to_json(report.train)},
                           {"valid", to_json(report.valid)}};
  if (report.source_vocab_size > 0) {
    result["source_vocab_size"] = report.source_vocab_size;
    result["source_tokenizer_sentences"] = report.source_tokenizer_sentences;
  }
  return result;
}

std::string prepare_text(const data::PrepareReport& report) {
  std::string text;
  const auto add_training = [&text](const char* tokenizer, int64_t sentences) {
    if (sentences > 0) text += fmt::format("{}: trained on {} sentences\n", tokenizer, grouped(sentences));
  };
  if (report.source_vocab_size > 0) add_training("tokenizer of sources", report.source_tokenizer_sentences);
  add_training(report.source_vocab_size > 0 ? "tokenizer of targets" : "tokenizer",
               report.tokenizer_sentences);
  for (const data::PreparedCorpus& prepared : report.corpora) text += describe_counts(prepared);
  if (report.corpora.size() > 1) text += describe_counts("all", report.train, false);
  if (report.valid.read > 0) text += describe_counts("valid", report.valid, true);
  return text;
}

}  // namespace ventris
