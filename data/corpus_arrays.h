// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus.h"
#include "data/io/element_type.h"
#include "data/io/hdf5_reader.h"
#include "data/io/mapped_file.h"

// Private to data/: the arrays of a corpus file.

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

/// Checks shapes and counts, and reads no array. Throws DataError kBadData.
CorpusArrays corpus_arrays(const CorpusFile& file);

}  // namespace ventris::data
