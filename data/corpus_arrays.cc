// SPDX-License-Identifier: Apache-2.0
#include "data/corpus_arrays.h"

#include <algorithm>

#include "data/corpus_format.h"
#include "data/error.h"

namespace ventris::data {
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

}  // namespace ventris::data
