// SPDX-License-Identifier: Apache-2.0
#include "data/prepare_record.h"

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/corpus_writer.h"
#include "data/io/file_io.h"
#include "data/io/json_text.h"
#include "data/prepare_tokenizer.h"

namespace ventris::data {

namespace {

using Json = nlohmann::ordered_json;

/// Names without folders and digests of the text: equal text in another folder gives an equal corpus file.
Json provenance(const std::vector<InputFile>& inputs) {
  Json list = Json::array();
  for (const InputFile& input : inputs) {
    list.push_back(
        {{"name", without_folder(input.path)}, {"lines", input.lines}, {"xxh3_128", input.digest}});
  }
  return list;
}

std::string tokenizer_origin(const PrepareOptions& options, const Tokenizer& tokenizer, Sides sides) {
  if (options.tokenizer_model.empty()) return training_record(training_of(options, sides), tokenizer.model());
  const bool other_file = sides == Sides::kSource && !options.source_tokenizer_model.empty();
  Json origin;
  origin["given"] = without_folder(other_file ? options.source_tokenizer_model : options.tokenizer_model);
  return json_text(origin);
}

const char* name_of(Likeness likeness) {
  constexpr std::array<const char*, 3> kNames = {"none", "exact", "near"};
  return kNames[static_cast<size_t>(likeness)];
}

}  // namespace

std::string part_details(const TrainingCorpus& corpus, const SetRecord& record,
                         const PrepareOptions& options) {
  const PrepareCounts& counts = record.counts;
  Json details;
  details["inputs"] = provenance(record.inputs);
  for (const auto& [name, count] : kPrepareCounts) details[name] = counts.*count;
  details["weights_mean"] = counts.kept == 0 ? 0.0 : counts.weights / static_cast<double>(counts.kept);
  details["source_tag"] = corpus.source_tag;
  details["target_tag"] = corpus.target_tag;
  details["max_length"] = options.max_length;
  details["max_length_ratio"] = options.max_length_ratio;
  details["drop_duplicates"] = name_of(options.drop_duplicates);
  details["drop_overlap"] = name_of(options.drop_overlap);
  return json_text(details);
}

void write_attributes(CorpusWriter& writer, const PrepareOptions& options, const TokenizerPair& tokenizers,
                      const SetRecord& train, const SetRecord& valid) {
  for (const auto& [set, record] : {std::pair("train", &train), {"valid", &valid}}) {
    for (const auto& [name, count] : kPrepareCounts) {
      const bool is_cut = count == &PrepareCounts::too_long && record == &valid;
      writer.write_attribute(fmt::format("{}_{}", set, is_cut ? "cut_too_long" : name),
                             record->counts.*count);
    }
  }
  writer.write_attribute("max_length", int64_t{options.max_length});
  writer.write_attribute("max_length_ratio", options.max_length_ratio);
  const auto write_origin = [&](const char* name, const Tokenizer& tokenizer, Sides sides) {
    writer.write_attribute(name, tokenizer_origin(options, tokenizer, sides));
  };
  write_origin("tokenizer_origin", tokenizers.target(), tokenizers.shared() ? Sides::kBoth : Sides::kTarget);
  if (!tokenizers.shared()) write_origin("source_tokenizer_origin", tokenizers.source(), Sides::kSource);
  writer.write_attribute("train_inputs", json_text(provenance(train.inputs)));
  writer.write_attribute("valid_inputs", json_text(provenance(valid.inputs)));
}

}  // namespace ventris::data
