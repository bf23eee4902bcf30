// SPDX-License-Identifier: Apache-2.0
#include "data/corpus.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus_format.h"
#include "data/error.h"
#include "data/io/element_type.h"
#include "data/io/file_format.h"
#include "data/io/hdf5_reader.h"
#include "data/io/mapped_file.h"
#include "data/io/parallel_for.h"

namespace ventris::data {

/// Pieces of text, mapped: piece i is bytes[offsets[i], offsets[i + 1]).
struct StoredText {
  std::span<const uint8_t> bytes;
  std::span<const int64_t> offsets;

  int64_t size() const { return std::ssize(offsets) - 1; }
  /// What is read is checked as in SentenceArray.
  std::string_view at(int64_t piece, const MappedFile& file, const std::string& path) const;
  /// Of pieces of which two belong to a pair: asks for those of these pairs ahead of at().
  void expect_pairs(std::span<const int64_t> pairs, const MappedFile& file) const;
};

/// A set of validation pairs.
struct StoredValidSet {
  CorpusPart part;
  SentencePairs pairs;
  StoredText references;
  StoredText sources = {};  // empty without
};

struct CorpusArrays {
  SentencePairs train;
  std::vector<CorpusPart> parts;
  std::vector<StoredValidSet> valid_sets;  // at least one
  StoredText text;                         // source and target of pair 0, of pair 1, ...; empty without
  int max_length = 0;
};

/// An open corpus file.
struct CorpusFile {
  const Hdf5Reader& reader;
  const MappedFile& mapping;
  const TokenFormat& source;  // of the ids of a side
  const TokenFormat& target;

  const std::string& path() const { return reader.path(); }
  template <typename T>
  std::span<const T> array(const std::string& name) const {
    const int64_t size = check_array(name, ElementTypeOf<T>::value, sizeof(T));
    return {reinterpret_cast<const T*>(mapping.at(reader.file_offset(name))), static_cast<size_t>(size)};
  }
  StoredText text(const std::string& bytes, const std::string& offsets) const {
    return {array<uint8_t>(bytes), array<int64_t>(offsets)};
  }

 private:
  /// Elements of a one-dimensional array of this type, which lies at a multiple of `bytes`.
  int64_t check_array(const std::string& name, ElementType type, size_t bytes) const;
};

namespace {

/// The sum of the parts as one.
CorpusPart sum_of(const std::vector<CorpusPart>& parts) {
  CorpusPart sum;
  for (const CorpusPart& part : parts) {
    sum.pairs += part.pairs;
    sum.source_tokens += part.source_tokens;
    sum.target_tokens += part.target_tokens;
    sum.longest_source = std::max(sum.longest_source, part.longest_source);
    sum.longest_target = std::max(sum.longest_target, part.longest_target);
  }
  return sum;
}

template <typename Id>
void set_tokens(SentenceArray::Stored& stored, const CorpusFile& file, const std::string& name) {
  const auto tokens = file.array<Id>(name);
  stored.tokens = reinterpret_cast<const std::byte*>(tokens.data());
  stored.token_count = std::ssize(tokens);
}

/// The pairs under a group, of which the attributes say what `whole` holds.
SentencePairs pairs_in_group(const CorpusFile& file, const std::string& group, const CorpusPart& whole) {
  const auto offsets = file.array<int64_t>(group + "/offsets");
  SentenceArray::Stored source = {.offsets = offsets.data(),
                                  .stride = 2,
                                  .count = whole.pairs,
                                  .total = whole.source_tokens,
                                  .longest = whole.longest_source,
                                  .format = &file.source,
                                  .file = &file.mapping};
  if (file.source.bytes == 2) {
    set_tokens<uint16_t>(source, file, group + "/tokens");
  } else {
    set_tokens<int32_t>(source, file, group + "/tokens");
  }
  if (std::ssize(offsets) - 1 != 2 * whole.pairs ||
      source.token_count != whole.source_tokens + whole.target_tokens) {
    fail(ErrorKind::kBadData,
         "{}: {} has {} offsets and {} tokens, but its attributes are of {} pairs of {} and {} tokens. "
         "Prepare the corpus again.",
         file.path(), group, offsets.size(), source.token_count, whole.pairs, whole.source_tokens,
         whole.target_tokens);
  }
  SentenceArray::Stored target = source;
  target.first = 1;
  target.format = &file.target;
  target.total = whole.target_tokens;
  target.longest = whole.longest_target;
  return {SentenceArray(source), SentenceArray(target)};
}

void check_count(const CorpusFile& file, const std::string& name, int64_t count, int64_t wanted) {
  if (count == wanted) return;
  fail(ErrorKind::kBadData, "{}: {} has {} elements, expected {}. Prepare the corpus again.", file.path(),
       name, count, wanted);
}

StoredText lines_of(const CorpusFile& file, const std::string& name, const CorpusPart& part) {
  const StoredText text = file.text(name + "_text", name + "_offsets");
  check_count(file, name + "_offsets", std::ssize(text.offsets), part.pairs + 1);
  return text;
}

/// The validation pairs under a group.
StoredValidSet valid_set_of(const CorpusFile& file, const std::string& group, const CorpusPart& part) {
  StoredValidSet set{.part = part,
                     .pairs = pairs_in_group(file, group, part),
                     .references = lines_of(file, group + "/reference", part)};
  if (file.reader.exists(group + "/source_text")) set.sources = lines_of(file, group + "/source", part);
  return set;
}

std::vector<StoredValidSet> valid_sets_of(const CorpusFile& file) {
  const auto parts = [&](const char* attribute) {
    return parts_of_json(file.reader.string_attribute("/", attribute), attribute, file.path());
  };
  std::vector<StoredValidSet> sets = {valid_set_of(file, kValidGroup, parts(kValidAttribute).front())};
  if (!file.reader.has_attribute("/", kMoreValidAttribute)) return sets;
  for (const CorpusPart& part : parts(kMoreValidAttribute)) {
    if (part.name == sets.front().part.name)
      fail(ErrorKind::kBadData, "{}: two validation sets have the name {}. Prepare the corpus again.",
           file.path(), part.name);
    sets.push_back(valid_set_of(file, more_valid_group(part.name), part));
  }
  return sets;
}

}  // namespace

std::string_view StoredText::at(int64_t piece, const MappedFile& file, const std::string& path) const {
  const int64_t* const at = offsets.data() + piece;
  file.check(at, 2 * sizeof(*at));
  const int64_t begin = *static_cast<const volatile int64_t*>(at);
  const int64_t end = *static_cast<const volatile int64_t*>(at + 1);
  if (begin < 0 || begin > end || end > std::ssize(bytes)) {
    fail(
        ErrorKind::kBadData,
        "{}: the offsets of line {} are {} and {}, but {} bytes of text are stored. Prepare the corpus again.",
        path, piece, begin, end, bytes.size());
  }
  const auto* const text = reinterpret_cast<const char*>(bytes.data()) + begin;
  file.check(text, static_cast<size_t>(end - begin));
  return {text, static_cast<size_t>(end - begin)};
}

void StoredText::expect_pairs(std::span<const int64_t> pairs, const MappedFile& file) const {
  if (offsets.empty()) return;
  constexpr size_t kOffsets = 3;  // of both lines and of the end of the second
  for (const int64_t pair : pairs) file.expect(offsets.data() + 2 * pair, kOffsets * sizeof(int64_t));
  for (const int64_t pair : pairs) {
    // Not checked yet, so at worst other bytes of the text are asked for.
    const int64_t* const at = offsets.data() + 2 * pair;
    const int64_t begin = *static_cast<const volatile int64_t*>(at);
    const int64_t end = *static_cast<const volatile int64_t*>(at + kOffsets - 1);
    if (begin >= 0 && begin < end && end <= std::ssize(bytes))
      file.expect(bytes.data() + begin, static_cast<size_t>(end - begin));
  }
}

int64_t CorpusFile::check_array(const std::string& name, ElementType type, size_t bytes) const {
  const std::vector<int64_t> shape = reader.dimensions(name, fmt::format("a row of {}", name_of(type)));
  if (reader.type(name) != type || shape.size() != 1) {
    fail(ErrorKind::kBadData, "{}: dataset {} is not a row of {}, the type of a corpus", path(), name,
         name_of(type));
  }
  const int64_t offset = reader.file_offset(name);
  if (offset % static_cast<int64_t>(bytes) != 0) {
    // Copies of what does not lie so could be as large as the corpus, which is mapped to be larger than
    // memory.
    fail(
        ErrorKind::kBadData,
        "{}: dataset {} begins at byte {}, no multiple of {}, so it cannot be mapped into memory: another "
        "program wrote the file. Prepare the corpus again; a program that writes one must align its datasets "
        "(H5Pset_alignment, in h5py alignment_interval=64)",
        path(), name, offset, bytes);
  }
  return shape[0];
}

namespace {

/// Checks shapes and counts, and reads no array. Throws DataError kBadData.
CorpusArrays corpus_arrays(const CorpusFile& file) {
  CorpusArrays arrays;
  arrays.parts =
      parts_of_json(file.reader.string_attribute("/", kPartsAttribute), kPartsAttribute, file.path());
  const CorpusPart train = sum_of(arrays.parts);
  arrays.train = pairs_in_group(file, "/train", train);
  arrays.valid_sets = valid_sets_of(file);
  arrays.max_length = std::max(train.longest_source, train.longest_target);
  for (const StoredValidSet& set : arrays.valid_sets)
    arrays.max_length = std::max({arrays.max_length, set.part.longest_source, set.part.longest_target});
  if (file.reader.exists("/train/weights")) {
    arrays.train.weights = file.array<float>("/train/weights");
    check_count(file, "/train/weights", std::ssize(arrays.train.weights), train.pairs);
  }
  if (file.reader.exists("/train/text")) {
    arrays.text = file.text("/train/text", "/train/text_offsets");
    check_count(file, "/train/text_offsets", std::ssize(arrays.text.offsets), 2 * train.pairs + 1);
  }
  return arrays;
}

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
  parallel_for((part.pairs + kPiece - 1) / kPiece, threads, [&](int64_t piece) {
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
