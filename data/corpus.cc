#include "data/corpus.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "data/corpus_format.h"
#include "data/error.h"
#include "data/files/element_type.h"
#include "data/files/file_io.h"
#include "data/files/hdf5_reader.h"

namespace ventris::data {

namespace {

/// A whole file in memory, read-only.
class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!file.valid() || ::fstat(file.fd(), &status) != 0) {
      fail_opening(path, errno);
    }
    size_ = static_cast<size_t>(status.st_size);
    address_ = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.fd(), 0);
    if (address_ == MAP_FAILED) {
      fail(ErrorKind::kIo, "{}: cannot map {} bytes into memory: {}", path, size_, system_reason(errno));
    }
  }
  ~Mapping() { ::munmap(address_, size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  template <typename T>
  const T* at(int64_t offset) const {
    return reinterpret_cast<const T*>(static_cast<const char*>(address_) + offset);
  }

 private:
  void* address_ = nullptr;
  size_t size_ = 0;
};

/// An array of the file, in memory.
template <typename T>
std::span<const T> map_array(const Hdf5Reader& reader, const Mapping& mapping, const std::string& name) {
  const std::vector<int64_t> shape = reader.dimensions(name);
  if (reader.type(name) != ElementTypeOf<T>::value || shape.size() != 1) {
    fail(ErrorKind::kBadData, "{}: dataset {} is not a row of {}-byte elements of the type of a corpus",
         reader.path(), name, sizeof(T));
  }
  const int64_t offset = reader.file_offset(name);
  if (offset % static_cast<int64_t>(sizeof(T)) != 0) {
    fail(ErrorKind::kBadData, "{}: dataset {} begins at byte {}, no multiple of {}", reader.path(), name,
         offset, sizeof(T));
  }
  return {mapping.at<T>(offset), static_cast<size_t>(shape[0])};
}

/// Checks that offsets increase from 0 to `end`; returns the longest piece.
int64_t check_offsets(std::span<const int64_t> offsets, size_t end, const std::string& path,
                      const std::string& name) {
  int64_t longest = 0;
  bool rising = !offsets.empty() && offsets.front() == 0 && offsets.back() == static_cast<int64_t>(end);
  for (size_t i = 1; rising && i < offsets.size(); ++i) {
    const int64_t length = offsets[i] - offsets[i - 1];
    rising = length >= 0 && length <= std::numeric_limits<int>::max();
    longest = std::max(longest, length);
  }
  if (!rising) {
    fail(ErrorKind::kBadData,
         "{}: {} does not rise from 0 to the {} elements that it divides. Prepare the corpus again.", path,
         name, end);
  }
  return longest;
}

SentenceArray map_side(const Hdf5Reader& reader, const Mapping& mapping, const std::string& group,
                       int32_t vocab_size, int& longest) {
  const auto tokens = map_array<int32_t>(reader, mapping, group + "/tokens");
  const auto offsets = map_array<int64_t>(reader, mapping, group + "/offsets");
  const int64_t length = check_offsets(offsets, tokens.size(), reader.path(), group + "/offsets");
  uint32_t largest = 0;  // a negative id is converted to a large one
  for (const int32_t id : tokens) {
    largest = std::max(largest, static_cast<uint32_t>(id));
  }
  if (!tokens.empty() && largest >= static_cast<uint32_t>(vocab_size)) {
    const auto bad =
        std::find_if(tokens.begin(), tokens.end(), [&](int32_t id) { return id < 0 || id >= vocab_size; });
    fail(ErrorKind::kBadData,
         "{}: token {} of {}/tokens is {}, but the vocabulary has {} tokens. Prepare the corpus again.",
         reader.path(), bad - tokens.begin(), group, *bad, vocab_size);
  }
  longest = std::max(longest, static_cast<int>(length));
  return {tokens.data(), offsets.data(), static_cast<int64_t>(offsets.size()) - 1};
}

SentencePairs map_pairs(const Hdf5Reader& reader, const Mapping& mapping, const std::string& prefix,
                        int32_t vocab_size, int& longest) {
  SentencePairs pairs{map_side(reader, mapping, prefix + "/source", vocab_size, longest),
                      map_side(reader, mapping, prefix + "/target", vocab_size, longest)};
  if (pairs.source.size() != pairs.target.size()) {
    fail(ErrorKind::kBadData, "{}: {}/source has {} sentences, {}/target has {}. Prepare the corpus again.",
         reader.path(), prefix, pairs.source.size(), prefix, pairs.target.size());
  }
  return pairs;
}

int longest_of(const SentenceArray& side) {
  int longest = 0;
  for (int64_t i = 0; i < side.size(); ++i) longest = std::max(longest, side.length(i));
  return longest;
}

std::string read_model(const Hdf5Reader& reader) {
  const std::vector<uint8_t> bytes = reader.read_bytes("/tokenizer");
  return {bytes.begin(), bytes.end()};
}

const Hdf5Reader& check_format(const Hdf5Reader& reader) {
  if (!reader.has_attribute("/", "format") || reader.string_attribute("/", "format") != kCorpusFormat) {
    fail(ErrorKind::kBadData, "{}: not a corpus file; expected one written by `ventris prepare`",
         reader.path());
  }
  const int64_t version = reader.int_attribute("/", "format_version");
  if (version != kCorpusFormatVersion) {
    fail(ErrorKind::kBadData, "{}: a corpus file of format version {}; this program reads version {}",
         reader.path(), version, kCorpusFormatVersion);
  }
  return reader;
}

}  // namespace

struct Corpus::Impl {
  std::string path;
  std::string digest;
  Mapping mapping;
  Tokenizer tokenizer;
  SentencePairs train;
  SentencePairs valid;
  std::vector<CorpusPart> parts;
  std::span<const uint8_t> reference_text;
  std::span<const int64_t> reference_offsets;
  int max_length = 0;

  explicit Impl(const Hdf5Reader& reader)
      : path(reader.path()), digest(reader.digest()), mapping(path), tokenizer(read_model(reader), path) {
    const int32_t vocab_size = tokenizer.vocab_size();
    train = map_pairs(reader, mapping, "", vocab_size, max_length);
    parts = {part_of(train, "train")};
    valid = map_pairs(reader, mapping, "/valid", vocab_size, max_length);
    reference_text = map_array<uint8_t>(reader, mapping, "/valid/reference_text");
    reference_offsets = map_array<int64_t>(reader, mapping, "/valid/reference_offsets");
    check_offsets(reference_offsets, reference_text.size(), path, "/valid/reference_offsets");
    if (static_cast<int64_t>(reference_offsets.size()) != valid.size() + 1) {
      fail(ErrorKind::kBadData, "{}: {} validation pairs, but {} references. Prepare the corpus again.", path,
           valid.size(), reference_offsets.size() - 1);
    }
  }
};

CorpusPart part_of(const SentencePairs& pairs, std::string name) {
  return {.name = std::move(name),
          .first = 0,
          .pairs = pairs.size(),
          .source_tokens = pairs.source.total_tokens(),
          .target_tokens = pairs.target.total_tokens(),
          .longest_source = longest_of(pairs.source),
          .longest_target = longest_of(pairs.target)};
}

Corpus::Corpus(const std::string& path) {
  const Hdf5Reader reader(path);
  impl_ = std::make_unique<Impl>(check_format(reader));
}

Corpus::~Corpus() = default;

const SentencePairs& Corpus::train() const {
  return impl_->train;
}
const SentencePairs& Corpus::valid() const {
  return impl_->valid;
}
const std::vector<CorpusPart>& Corpus::parts() const {
  return impl_->parts;
}

std::string Corpus::valid_reference(int64_t sentence) const {
  if (sentence < 0 || sentence >= impl_->valid.size()) {
    fail(ErrorKind::kBadConfiguration, "no validation sentence {}; {} has {}", sentence, impl_->path,
         impl_->valid.size());
  }
  const auto index = static_cast<size_t>(sentence);
  const auto begin = static_cast<size_t>(impl_->reference_offsets[index]);
  const auto end = static_cast<size_t>(impl_->reference_offsets[index + 1]);
  return {impl_->reference_text.begin() + static_cast<ptrdiff_t>(begin),
          impl_->reference_text.begin() + static_cast<ptrdiff_t>(end)};
}

const Tokenizer& Corpus::tokenizer() const {
  return impl_->tokenizer;
}
int Corpus::max_length() const {
  return impl_->max_length;
}
const std::string& Corpus::digest() const {
  return impl_->digest;
}
const std::string& Corpus::path() const {
  return impl_->path;
}

}  // namespace ventris::data
