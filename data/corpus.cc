// SPDX-License-Identifier: Apache-2.0
#include "data/corpus.h"

#include <algorithm>
#include <mutex>

#include "data/corpus_arrays.h"
#include "data/corpus_format.h"
#include "data/error.h"
#include "data/io/file_format.h"
#include "data/io/parallel_pieces.h"

namespace ventris::data {

namespace {

TokenizerPair tokenizers_of(const Hdf5Reader& reader, int64_t version) {
  const auto model = [&](const char* name) {
    const std::vector<uint8_t> bytes = reader.read_bytes(name);
    return std::string(bytes.begin(), bytes.end());
  };
  TokenizerModels models{.target = model("/tokenizer"), .source = ""};
  if (version == kTwoVocabulariesVersion) {
    models.source = model("/source_tokenizer");
    if (models.source.empty())
      fail(ErrorKind::kBadData, "{}: /source_tokenizer is empty. Prepare the corpus again.", reader.path());
  }
  return {models, reader.path()};
}

/// The version of the file.
int64_t checked_version(const Hdf5Reader& reader) {
  if (!reader.has_attribute("/", "format") || reader.string_attribute("/", "format") != kCorpusFormat) {
    fail(ErrorKind::kBadData, "{}: not a corpus file; expected one written by `ventris prepare`",
         reader.path());
  }
  const int64_t version = reader.int_attribute("/", "format_version");
  if (version < kOneVocabularyVersion || version > kTwoVocabulariesVersion) {
    fail(ErrorKind::kBadData,
         "{}: a corpus file of format version {}; this program reads versions {} and {}. "
         "Prepare the corpus again.",
         reader.path(), version, kOneVocabularyVersion, kTwoVocabulariesVersion);
  }
  return version;
}

/// Of the ids of the side that has this tokenizer.
TokenFormat token_format(const TokenizerPair& tokenizers, const Tokenizer& of_side, const std::string& path) {
  return {.bytes = largest_vocabulary(tokenizers) <= kTwoByteVocabulary ? 2 : 4,
          .vocab_size = static_cast<uint32_t>(of_side.vocab_size()),
          .path = path,
          .vocabulary = tokenizers.shared()                ? "vocabulary"
                        : &of_side == &tokenizers.source() ? "source vocabulary"
                                                           : "target vocabulary"};
}

struct SideCount {
  int64_t tokens = 0;
  int longest = 0;

  void add(const TokenView& sentence) {
    for ([[maybe_unused]] const int32_t id : sentence) ++tokens;  // reading an id checks it
    longest = std::max(longest, static_cast<int>(sentence.size()));
  }
  void add(const SideCount& other) {
    tokens += other.tokens;
    longest = std::max(longest, other.longest);
  }
};

/// Reads all pairs of a part in parallel threads: their offsets, ids and weights, and whether together they
/// are what the part says. Throws DataError kBadData, naming `path` and the part.
void check_part(const SentencePairs& pairs, const CorpusPart& part, const std::string& path, int threads) {
  constexpr int64_t kPiece = int64_t{1} << 16;  // pairs
  SideCount source;
  SideCount target;
  std::mutex mutex;
  for_pieces((part.pairs + kPiece - 1) / kPiece, threads, [&](int64_t piece) {
    SideCount of_source;
    SideCount of_target;
    const int64_t end = std::min(part.first + part.pairs, part.first + (piece + 1) * kPiece);
    for (int64_t pair = part.first + piece * kPiece; pair < end; ++pair) {
      of_source.add(pairs.source[pair]);
      of_target.add(pairs.target[pair]);
      static_cast<void>(pairs.weight(pair));
    }
    const std::lock_guard lock(mutex);
    source.add(of_source);
    target.add(of_target);
  });
  const auto check = [&](const char* side, const SideCount& found, int64_t tokens, int longest) {
    if (found.tokens == tokens && found.longest == longest) return;
    fail(ErrorKind::kBadData,
         "{}: the {} of {} has {} tokens and at most {} a sentence, but {} and {} are recorded. "
         "Prepare the corpus again.",
         path, side, part.name, found.tokens, found.longest, tokens, longest);
  };
  check("source", source, part.source_tokens, part.longest_source);
  check("target", target, part.target_tokens, part.longest_target);
}

}  // namespace

struct Corpus::Impl {
  std::string path;
  std::string digest;
  std::unique_ptr<const MappedFile> mapping;
  TokenizerPair tokenizers;
  TokenFormat source_format;
  TokenFormat target_format;
  CorpusArrays arrays;
  std::vector<CorpusValidSet> valid_sets;

  Impl(const Hdf5Reader& reader, int64_t version)
      : path(reader.path()),
        digest(reader.digest()),
        mapping(reader.map()),
        tokenizers(tokenizers_of(reader, version)),
        source_format(token_format(tokenizers, tokenizers.source(), path)),
        target_format(token_format(tokenizers, tokenizers.target(), path)) {
    const CorpusFile file{reader, *mapping, source_format, target_format};
    arrays = corpus_arrays(file);
    for (const StoredValidSet& set : arrays.valid_sets) valid_sets.push_back({set.part.name, set.pairs});
  }

  const StoredValidSet& valid_set(int64_t sentence, size_t set) const {
    if (set >= arrays.valid_sets.size() || sentence < 0 || sentence >= arrays.valid_sets[set].pairs.size()) {
      fail(ErrorKind::kBadConfiguration,
           "no validation sentence {} of set {}; {} has {} sets, and {} in the first", sentence, set, path,
           arrays.valid_sets.size(), arrays.valid_sets.front().pairs.size());
    }
    return arrays.valid_sets[set];
  }
};

bool is_corpus_name(const std::string& name) {
  return !name.empty() && name.size() <= kLongestCorpusName && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

Corpus::Corpus(const std::string& path) {
  const Hdf5Reader reader(path);
  impl_ = std::make_unique<Impl>(reader, checked_version(reader));
}

Corpus::~Corpus() = default;

const SentencePairs& Corpus::train() const {
  return impl_->arrays.train;
}
const SentencePairs& Corpus::valid() const {
  return impl_->valid_sets.front().pairs;
}
const std::vector<CorpusValidSet>& Corpus::valid_sets() const {
  return impl_->valid_sets;
}
const std::vector<CorpusPart>& Corpus::parts() const {
  return impl_->arrays.parts;
}

std::string Corpus::valid_reference(int64_t sentence, size_t set) const {
  return std::string(impl_->valid_set(sentence, set).references.at(sentence, *impl_->mapping, impl_->path));
}
std::string Corpus::valid_source(int64_t sentence, size_t set) const {
  const StoredValidSet& stored = impl_->valid_set(sentence, set);
  if (!stored.sources.offsets.empty())
    return std::string(stored.sources.at(sentence, *impl_->mapping, impl_->path));
  const TokenView tokens = stored.pairs.source[sentence];
  return impl_->tokenizers.source().decode({tokens.begin(), tokens.end()});
}

bool Corpus::has_text() const {
  return !impl_->arrays.text.offsets.empty();
}
std::string_view Corpus::train_source_text(int64_t pair) const {
  return impl_->arrays.text.at(2 * pair, *impl_->mapping, impl_->path);
}
std::string_view Corpus::train_target_text(int64_t pair) const {
  return impl_->arrays.text.at(2 * pair + 1, *impl_->mapping, impl_->path);
}

void Corpus::expect_text(std::span<const int64_t> pairs) const {
  impl_->arrays.text.expect_pairs(pairs, *impl_->mapping);
}

const TokenizerPair& Corpus::tokenizers() const {
  return impl_->tokenizers;
}
int Corpus::max_length() const {
  return impl_->arrays.max_length;
}
const std::string& Corpus::digest() const {
  return impl_->digest;
}
void Corpus::check_all(int threads) const {
  verified_digest(impl_->path);
  for (const CorpusPart& part : parts()) check_part(train(), part, path(), threads);
  for (size_t set = 0; set < valid_sets().size(); ++set) {
    check_part(valid_sets()[set].pairs, impl_->arrays.valid_sets[set].part, path(), threads);
    for (int64_t i = 0; i < valid_sets()[set].pairs.size(); ++i) {
      static_cast<void>(valid_reference(i, set));
      static_cast<void>(valid_source(i, set));
    }
  }
  for (int64_t i = 0; has_text() && i < train().size(); ++i) {
    static_cast<void>(train_source_text(i));
    static_cast<void>(train_target_text(i));
  }
}

const std::string& Corpus::path() const {
  return impl_->path;
}

}  // namespace ventris::data
