// SPDX-License-Identifier: Apache-2.0
#include "data/prepare.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/corpus_writer.h"
#include "data/error.h"
#include "data/io/file_io.h"
#include "data/io/json_text.h"
#include "data/ordered_pipeline.h"
#include "data/pair_block.h"
#include "data/prepare_checks.h"
#include "data/prepare_tokenizer.h"
#include "data/text/cached_encoder.h"
#include "data/text/pair_reader.h"

namespace ventris::data {

namespace {

/// A set of pairs that was read.
struct SetRecord {
  PrepareCounts counts;
  std::vector<InputFile> inputs;
};

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

/// The record of a part: a JSON object of its files, counts and options.
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

/// The attributes of "/": counts, options and inputs.
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

/// Lines that no side of a training pair may be: those of validation and of the held-out files.
KeySet held_out_lines(const PrepareOptions& options) {
  KeySet keys;
  std::string scratch;
  const auto add_line = [&](const std::string& line, const std::string& path, int64_t number) {
    const CleanLine clean = clean_line(line, scratch, path, number);
    if (!clean.text.empty()) keys.insert(key_of_line(clean.text, options.drop_overlap));
  };
  const std::vector<PairFiles> valid = all_valid_files(options);
  PairReader pairs(valid, "");
  RawPair pair;
  while (pairs.next_files()) {
    const PairFiles& files = valid[pairs.file()];
    while (pairs.next(pair)) {
      add_line(pair.source, files.source, pairs.line_number());
      add_line(pair.target, files.target.empty() ? files.source : files.target, pairs.line_number());
    }
  }
  std::string line;
  for (const std::string& path : options.held_out) {
    TextReader reader(path);
    while (reader.next(line)) add_line(line, path, reader.line_number());
  }
  return keys;
}

/// For the cache of each thread: all together take about 150 MB at most.
size_t cached_words(int threads) {
  constexpr size_t kAllWords = size_t{1} << 20;
  constexpr size_t kMaxWords = size_t{1} << 18;
  constexpr size_t kMinWords = size_t{1} << 12;
  return std::clamp(std::bit_floor(kAllWords / static_cast<size_t>(threads)), kMinWords, kMaxWords);
}

/// Reads and encodes sets of pairs, one after the other.
class SetEncoder {
 public:
  SetEncoder(const PrepareOptions& options, const TokenizerPair& tokenizers)
      : options_(options),
        tokenizers_(tokenizers),
        encoders_(static_cast<size_t>(options.threads),
                  PairEncoder(tokenizers, cached_words(options.threads))) {
    progress_.all_bytes = bytes_of(all_valid_files(options));
    for (const TrainingCorpus& corpus : options.corpora) {
      progress_.all_bytes += bytes_of(corpus.files);
    }
  }

  /// `write` takes the kept pairs of each block.
  template <typename Write>
  SetRecord encode(const PairSet& set, const Write& write) {
    SetRecord record;
    PairReader reader(set.files, set.corpus == nullptr ? "" : set.corpus->weights);
    const bool finds_duplicates = set.drop && options_.drop_duplicates != Likeness::kNone;
    const PrepareProgress before = progress_;
    run_in_order<PairBlock>(
        options_.threads, [&](PairBlock& block) { return block.read(reader); },
        [&](PairBlock& block, size_t worker) { block.encode(encoders_[worker], set); },
        [&](PairBlock& block) {
          block.finish(finds_duplicates ? &seen_ : nullptr, set, tokenizers_);
          write(block.kept());
          add(record.counts, block.counts());
          progress_.pairs = before.pairs + block.pairs_read();
          progress_.bytes = before.bytes + block.bytes_read();
          if (options_.progress) options_.progress(progress_);
        });
    record.inputs = reader.finished();
    return record;
  }
  const PrepareProgress& progress() const { return progress_; }

 private:
  const PrepareOptions& options_;
  const TokenizerPair& tokenizers_;
  std::vector<PairEncoder> encoders_;  // one for each thread
  KeySet seen_;                        // pairs kept so far
  PrepareProgress progress_{.phase = "tokenizing", .pairs = 0, .bytes = 0, .all_bytes = 0};
};

void check_some_remain(const TrainingCorpus& corpus, const PrepareCounts& counts,
                       const PrepareOptions& options) {
  if (counts.kept > 0 && counts.weights == 0.0) {
    fail(ErrorKind::kBadData,
         "the weights of all {} training pairs of {} are 0, so that training would learn nothing of them; "
         "expected is at least one above 0. Check the file of weights, or leave it out",
         counts.kept, corpus.name);
  }
  if (counts.kept > 0) return;
  std::string reasons = fmt::format(
      "{} have an empty side, {} are longer than {} tokens, {} have sides of too different length",
      counts.empty, counts.too_long, options.max_length, counts.bad_ratio);
  const int64_t repeated = counts.overlap + counts.duplicate + counts.near_duplicate;
  if (repeated > 0)
    reasons += fmt::format(", {} overlap with held-out text or repeat earlier pairs", repeated);
  fail(
      ErrorKind::kBadData, "none of the {} training pairs of {} remains: {}. {}", counts.read, corpus.name,
      reasons,
      repeated > counts.too_long + counts.bad_ratio
          ? "Check that the training files are not the validation or overlap files, or change --drop-overlap or "
            "--drop-duplicates"
          : "Raise --max-length or --max-length-ratio, or check that the files belong together");
}

/// Files that cannot be read are reported before a tokenizer is trained.
void check_readable(const PrepareOptions& options) {
  const PairReader valid(all_valid_files(options), "");
  for (const TrainingCorpus& corpus : options.corpora) {
    const PairReader readable(corpus.files, corpus.weights);
  }
  for (const std::string& path : options.held_out) {
    const TextReader readable(path);
  }
}

}  // namespace

PrepareReport prepare(const PrepareOptions& options) {
  check_options(options);
  check_readable(options);
  const PreparedTokenizers prepared = make_tokenizers(options);
  const TokenizerPair& tokenizers = prepared.tokenizers;
  check_tags(options, tokenizers);
  std::optional<KeySet> held_out;
  if (options.drop_overlap != Likeness::kNone) held_out.emplace(held_out_lines(options));
  const bool weighted = std::ranges::any_of(
      options.corpora, [](const TrainingCorpus& corpus) { return !corpus.weights.empty(); });
  CorpusWriter writer(options.output, tokenizers, {.weights = weighted, .text = options.keep_text});
  SetEncoder encoder(options, tokenizers);
  PrepareReport result;
  SetRecord train;
  for (const TrainingCorpus& corpus : options.corpora) {
    writer.begin_part(corpus.name);
    const SetRecord record = encoder.encode({.drop = true,
                                             .files = corpus.files,
                                             .corpus = &corpus,
                                             .held_out = held_out ? &*held_out : nullptr,
                                             .options = options},
                                            [&](const CorpusPairs& pairs) { writer.add_train(pairs); });
    check_some_remain(corpus, record.counts, options);
    writer.end_part(part_details(corpus, record, options));
    add(train.counts, record.counts);
    train.inputs.insert(train.inputs.end(), record.inputs.begin(), record.inputs.end());
    result.corpora.push_back({corpus, record.counts});
  }
  const auto encode_valid = [&](const std::vector<PairFiles>& files) {
    return encoder.encode(
        {.drop = false, .files = files, .corpus = nullptr, .held_out = nullptr, .options = options},
        [&](const CorpusPairs& pairs) { writer.add_valid(pairs); });
  };
  SetRecord valid = encode_valid(options.valid);
  for (const NamedValidSet& set : options.valid_sets) {
    writer.begin_valid_set(set.name);
    const SetRecord record = encode_valid({set.files});
    if (record.counts.kept == 0)
      fail(ErrorKind::kBadData, "no pair of the validation set {} has tokens on both sides", set.name);
    add(valid.counts, record.counts);
    valid.inputs.insert(valid.inputs.end(), record.inputs.begin(), record.inputs.end());
  }
  PrepareProgress writing = encoder.progress();
  writing.phase = "writing";
  if (options.progress) options.progress(writing);
  write_attributes(writer, options, tokenizers, train, valid);
  writer.commit();
  result.train = train.counts;
  result.valid = valid.counts;
  result.tokenizer_sentences = prepared.sentences;
  result.vocab_size = tokenizers.target().vocab_size();
  result.source_tokenizer_sentences = prepared.source_sentences;
  if (!tokenizers.shared()) result.source_vocab_size = tokenizers.source().vocab_size();
  result.digest = writer.digest();
  return result;
}

}  // namespace ventris::data
