#include "data/prepare.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "data/corpus_format.h"
#include "data/error.h"
#include "data/files/atomic_file.h"
#include "data/files/element_type.h"
#include "data/files/file_io.h"
#include "data/files/hdf5_writer.h"
#include "data/files/spool_file.h"
#include "data/ordered_pipeline.h"
#include "data/pair_block.h"
#include "data/pair_reader.h"
#include "data/text/cached_encoder.h"
#include "data/text/word_independence.h"

namespace ventris::data {

namespace {

void check_files(const char* set, const std::vector<std::string>& source,
                 const std::vector<std::string>& target) {
  if (source.size() != target.size()) {
    fail(ErrorKind::kUsage, "{} source and {} target files for {}: expected the same number of each",
         source.size(), target.size(), set);
  }
}

/// No input may be overwritten, and the two outputs must differ.
void check_outputs(const PrepareOptions& options) {
  namespace fs = std::filesystem;
  std::vector<std::string> inputs = {options.tokenizer_model};
  for (const auto* paths :
       {&options.train_source, &options.train_target, &options.valid_source, &options.valid_target}) {
    inputs.insert(inputs.end(), paths->begin(), paths->end());
  }
  for (const std::string& output : {options.output, options.dropped_report}) {
    if (output.empty()) continue;
    check_is_no_other_thing(output);
    for (const std::string& input : inputs) {
      std::error_code error;  // of a file that does not exist
      if (!fs::equivalent(input, output, error)) continue;
      fail(ErrorKind::kUsage, "{} is also an input; give another file", output);
    }
  }
  if (fs::path(options.output).lexically_normal() == fs::path(options.dropped_report).lexically_normal()) {
    fail(ErrorKind::kUsage, "{} cannot be the corpus file and the report of dropped pairs", options.output);
  }
}

void check_options(const PrepareOptions& options) {
  check_files("training", options.train_source, options.train_target);
  check_files("validation", options.valid_source, options.valid_target);
  if (options.train_source.empty()) {
    fail(ErrorKind::kUsage, "no training files given");
  }
  for (const auto* paths :
       {&options.train_source, &options.train_target, &options.valid_source, &options.valid_target}) {
    for (const std::string& path : *paths) {
      struct stat status {};
      const mode_t kind = ::stat(path.c_str(), &status) == 0 ? status.st_mode & S_IFMT : S_IFREG;
      if (path == "-" || kind == S_IFIFO || kind == S_IFSOCK || kind == S_IFCHR || kind == S_IFBLK) {
        fail(ErrorKind::kUsage, "parallel text is read twice, from files, but {} is {}", path,
             path == "-"                           ? "the standard input"
             : kind == S_IFIFO || kind == S_IFSOCK ? "a pipe"
                                                   : "a device");
      }
    }
  }
  if (options.output.empty()) {
    fail(ErrorKind::kUsage, "no output file given");
  }
  if (options.max_length < 1) {
    fail(ErrorKind::kBadConfiguration, "the longest sentence allowed has {} tokens; at least 1 is needed",
         options.max_length);
  }
  if (!(options.max_length_ratio == 0.0 || options.max_length_ratio >= 1.0)) {
    fail(ErrorKind::kBadConfiguration,
         "the length ratio is {}; it must be at least 1, or 0 to keep all pairs", options.max_length_ratio);
  }
  if (options.threads < 1) {
    fail(ErrorKind::kBadConfiguration, "at least 1 thread is needed, not {}", options.threads);
  }
  check_outputs(options);
}

/// One side of a set, spooled for the corpus file.
class SideSpool {
 public:
  SideSpool(const std::string& output, ElementType element)
      : elements_(output, element), offsets_(output, ElementType::kI64) {
    offsets_.append(&end_, 1);
  }
  void append(const void* elements, const std::vector<int64_t>& lengths) {
    const int64_t begin = end_;
    for (const int64_t length : lengths) {
      end_ += length;
      offsets_.append(&end_, 1);
    }
    elements_.append(elements, end_ - begin);
  }
  void copy_to(Hdf5Writer& writer, const std::string& elements, const std::string& offsets) {
    elements_.copy_to(writer, elements);
    offsets_.copy_to(writer, offsets);
  }

 private:
  SpoolFile elements_;
  SpoolFile offsets_;
  int64_t end_ = 0;
};

/// The file of dropped and repaired pairs, if requested; gets its name at commit().
class DroppedReport {
 public:
  explicit DroppedReport(const std::string& path) {
    if (!path.empty()) file_.emplace(path);
  }
  void append(const std::string& text) {
    if (file_) file_->write(text);
  }
  void commit() {
    if (file_) file_->commit();
  }

 private:
  std::optional<AtomicFile> file_;
};

/// The tokenizer's training text: evenly spaced pairs. When the sample is full, every second pair is removed
/// and the distance doubles, so that one pass is enough, and for a long text the sample has at least half of
/// the allowed sentences.
std::vector<std::string> sample_sentences(const PrepareOptions& options) {
  const int64_t max_pairs = std::max<int64_t>(1, options.tokenizer.max_sentences / 2);
  std::vector<std::string> sentences;
  int64_t distance = 1;
  int64_t index = 0;
  PairReader reader(options.train_source, options.train_target);
  std::string source;
  std::string target;
  std::string source_scratch;
  std::string target_scratch;
  const auto take = [&](std::string_view source_text, std::string_view target_text) {
    if (index++ % distance != 0) {
      return;
    }
    sentences.emplace_back(source_text);
    sentences.emplace_back(target_text);
    if (static_cast<int64_t>(sentences.size()) > 2 * max_pairs) {
      size_t kept = 0;
      for (size_t pair = 0; 2 * pair < sentences.size(); pair += 2) {
        sentences[kept++].swap(sentences[2 * pair]);
        sentences[kept++].swap(sentences[2 * pair + 1]);
      }
      sentences.resize(kept);
      distance *= 2;
    }
  };
  while (reader.next_files()) {
    const std::string& source_path = options.train_source[reader.file()];
    const std::string& target_path = options.train_target[reader.file()];
    while (reader.next(source, target)) {
      // Every line is checked here, so that bad text is found before the tokenizer is trained.
      const CleanLine clean_source = clean_line(source, source_scratch, source_path, reader.line_number());
      const CleanLine clean_target = clean_line(target, target_scratch, target_path, reader.line_number());
      take(clean_source.text, clean_target.text);
    }
  }
  return sentences;
}

Tokenizer make_tokenizer(const PrepareOptions& options) {
  if (!options.tokenizer_model.empty()) {
    return options.tokenizer_bytes.empty() ? Tokenizer::from_file_of_model_or_words(options.tokenizer_model)
                                           : Tokenizer(options.tokenizer_bytes, options.tokenizer_model);
  }
  return {train_tokenizer(sample_sentences(options), options.tokenizer), "the tokenizer trained on the text"};
}

/// One set of pairs, read, encoded and spooled.
struct PreparedSet {
  SideSpool source;
  SideSpool target;
  SideSpool reference;
  PrepareCounts counts;
  std::vector<InputFile> inputs;

  explicit PreparedSet(const std::string& output)
      : source(output, ElementType::kI32),
        target(output, ElementType::kI32),
        reference(output, ElementType::kU8) {}

  /// One encoder for each thread.
  void fill(const PairSet& set, const PrepareOptions& options, std::vector<CachedEncoder>& encoders,
            int32_t unknown_id, DroppedReport& report) {
    PairReader reader(set.source_paths, set.target_paths);
    OrderedPipeline<PairBlock> pipeline(
        options.threads, [&](PairBlock& block) { return block.read(reader); },
        [&](PairBlock& block, size_t worker) { block.encode(encoders[worker], unknown_id, options, set); },
        [&](PairBlock& block) {
          source.append(block.source_tokens.data(), block.source_lengths);
          target.append(block.target_tokens.data(), block.target_lengths);
          reference.append(block.reference_text.data(), block.reference_lengths);
          report.append(block.report);
          add(counts, block.counts);
        });
    pipeline.run();
    inputs = reader.finished();
  }
};

void write_counts(Hdf5Writer& writer, const std::string& set, const PrepareCounts& counts) {
  const auto write = [&](const char* name, int64_t value) {
    writer.write_attribute("/", set + "_" + name, value);
  };
  write("pairs", counts.kept);
  write("pairs_read", counts.read);
  write("dropped_empty", counts.empty);
  write(set == "train" ? "dropped_too_long" : "cut_too_long", counts.too_long);
  write("dropped_bad_ratio", counts.bad_ratio);
  write("repaired_crlf", counts.repaired_crlf);
  write("repaired_nul", counts.repaired_nul);
  write("source_words", counts.source_tokens);
  write("target_words", counts.target_tokens);
  write("unknown_words", counts.unknown_tokens);
}

/// Names without folders and digests of the text: equal text in another folder gives an equal corpus file.
std::string provenance(const std::vector<InputFile>& inputs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const InputFile& input : inputs) {
    list.push_back(
        {{"name", without_folder(input.path)}, {"lines", input.lines}, {"xxh3_128", input.digest}});
  }
  return list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string tokenizer_origin(const PrepareOptions& options, const Tokenizer& tokenizer) {
  if (options.tokenizer_model.empty()) return training_record(options.tokenizer, tokenizer.model());
  nlohmann::ordered_json origin;
  origin["given"] = without_folder(options.tokenizer_model);
  return origin.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void write_corpus(Hdf5Writer& writer, const PrepareOptions& options, const Tokenizer& tokenizer,
                  PreparedSet& train, PreparedSet& valid) {
  writer.write_attribute("/", "format", kCorpusFormat);
  writer.write_attribute("/", "format_version", kCorpusFormatVersion);
  writer.write_attribute("/", "vocab_size", int64_t{tokenizer.vocab_size()});
  write_counts(writer, "train", train.counts);
  write_counts(writer, "valid", valid.counts);
  writer.write_attribute("/", "max_length", int64_t{options.max_length});
  writer.write_attribute("/", "max_length_ratio", options.max_length_ratio);
  writer.write_attribute("/", "tokenizer_origin", tokenizer_origin(options, tokenizer));
  writer.write_attribute("/", "train_inputs", provenance(train.inputs));
  writer.write_attribute("/", "valid_inputs", provenance(valid.inputs));
  train.source.copy_to(writer, "/source/tokens", "/source/offsets");
  train.target.copy_to(writer, "/target/tokens", "/target/offsets");
  valid.source.copy_to(writer, "/valid/source/tokens", "/valid/source/offsets");
  valid.target.copy_to(writer, "/valid/target/tokens", "/valid/target/offsets");
  valid.reference.copy_to(writer, "/valid/reference_text", "/valid/reference_offsets");
  const auto bytes = static_cast<int64_t>(tokenizer.model().size());
  writer.write("/tokenizer", ElementType::kU8, {&bytes, 1}, tokenizer.model().data());
}

}  // namespace

PrepareReport prepare(const PrepareOptions& options) {
  check_options(options);
  PreparedSet train(options.output);
  PreparedSet valid(options.output);
  DroppedReport report(options.dropped_report);
  const PairReader readable(options.valid_source,
                            options.valid_target);  // before the tokenizer is trained
  const Tokenizer tokenizer = make_tokenizer(options);
  std::vector<CachedEncoder> encoders(static_cast<size_t>(options.threads),
                                      CachedEncoder(tokenizer, words_are_independent(tokenizer.model())));
  const int32_t unknown_id = tokenizer.unknown_id();
  train.fill({"train", true, options.train_source, options.train_target}, options, encoders, unknown_id,
             report);
  valid.fill({"valid", false, options.valid_source, options.valid_target}, options, encoders, unknown_id,
             report);
  if (train.counts.kept == 0) {
    fail(ErrorKind::kBadData,
         "none of the {} training pairs remains: {} have an empty side, "
         "{} are longer than {} tokens, {} have sides of too different length. "
         "Raise --max-length or --max-length-ratio, or check that the files belong together",
         train.counts.read, train.counts.empty, train.counts.too_long, options.max_length,
         train.counts.bad_ratio);
  }
  Hdf5Writer writer(options.output);
  write_corpus(writer, options, tokenizer, train, valid);
  report.commit();
  writer.commit();
  return {train.counts, valid.counts, tokenizer.vocab_size(), writer.digest()};
}

}  // namespace ventris::data
