// SPDX-License-Identifier: Apache-2.0
#include "data/corpus_arrays.h"

#include "data/error.h"

namespace ventris::data {

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

}  // namespace ventris::data
