// SPDX-License-Identifier: Apache-2.0
#include "data/files/hdf5_contents.h"

#include <algorithm>
#include <bit>
#include <csignal>
#include <cstring>
#include <numeric>

#include "data/error.h"
#include "data/files/hdf5_listing.h"
#include "data/files/hdf5_process.h"

namespace ventris::data {
namespace {

/// Parses a listing. The process that wrote it has read an untrusted file: nothing in it is trusted.
class Unpacker {
 public:
  Unpacker(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  bool at_end() const { return text_.empty(); }
  char mark() { return take(1).front(); }
  int64_t number() {
    int64_t value = 0;
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
    return value;
  }
  std::string text() {
    const int64_t length = number();
    if (length < 0) refuse();
    return std::string(take(static_cast<size_t>(length)));
  }
  [[noreturn]] void refuse() const {
    fail(ErrorKind::kBadData, "{}: the HDF5 library cannot read it safely: its answer is damaged", path_);
  }

 private:
  std::string_view take(size_t bytes) {
    if (bytes > text_.size()) refuse();
    const std::string_view taken = text_.substr(0, bytes);
    text_.remove_prefix(bytes);
    return taken;
  }

  std::string_view text_;
  const std::string& path_;
};

/// Whether the elements are inside the file, so that a dataset is never larger than the file.
bool is_inside(const Hdf5Dataset& dataset, int64_t bytes) {
  const bool none =
      std::find(dataset.dimensions.begin(), dataset.dimensions.end(), 0) != dataset.dimensions.end();
  if (none || !dataset.type || !dataset.has_elements) return true;
  int64_t needed = static_cast<int64_t>(size_of(*dataset.type));
  for (const int64_t extent : dataset.dimensions) {
    if (extent > bytes / needed) return false;
    needed *= extent;
  }
  return dataset.offset >= 0 && dataset.offset <= bytes && needed <= bytes - dataset.offset;
}

Hdf5Dataset dataset_of(Unpacker& from) {
  constexpr int64_t kMaxDimensions = 32;  // of the format
  Hdf5Dataset dataset;
  dataset.name = from.text();
  const int64_t type = from.number();
  for (const ElementType known : kElementTypes) {
    if (type == static_cast<int64_t>(known)) dataset.type = known;
  }
  dataset.offset = from.number();
  const int64_t rank = from.number();
  if (rank == listed::kNullSpace) {
    dataset.has_elements = false;
    return dataset;
  }
  if (rank < 0 || rank > kMaxDimensions) from.refuse();
  for (int64_t i = 0; i < rank; ++i) {
    dataset.dimensions.push_back(from.number());
    if (dataset.dimensions.back() < 0) from.refuse();
  }
  return dataset;
}

}  // namespace

Hdf5Contents::Hdf5Contents(const std::string& path, int fd, int64_t bytes, int64_t end) {
  constexpr size_t kConstantBytes = size_t{64} << 20;    // tables of the library, and of the allocator
  constexpr unsigned kSeconds = 5;                       // thousands of datasets take milliseconds
  constexpr auto kPatience = std::chrono::seconds(120);  // most of which may be a wait for a processor
  const auto size = static_cast<size_t>(bytes);
  const ConfinedLimits limits = {.input = fd,
                                 .memory_bytes = 4 * size + kConstantBytes,
                                 .cpu_seconds = kSeconds,
                                 .answer_bytes = size,
                                 .patience = kPatience};
  const ConfinedAnswer answer = Hdf5Process::of_program().list(path, fd, bytes, limits);
  if (!answer.complete && answer.short_of_time) {
    fail(ErrorKind::kUnavailable,
         "{}: cannot be read within the limit on CPU time, which leaves less than the {} s that reading "
         "may take: {}. Raise it (ulimit -t); the file may be sound",
         path, kSeconds, answer.killed_by != 0 ? "it was ended" : answer.text);
  }
  if (answer.killed_by != 0) {
    fail(ErrorKind::kIo,
         "{}: the process that reads it was ended by signal {} ({}) from outside{}. "
         "The file is not the cause: start the same command again",
         path, answer.killed_by, ::strsignal(answer.killed_by),
         answer.killed_by == SIGKILL ? ", for example because the system is out of memory" : "");
  }
  if (!answer.complete && answer.cramped) {
    fail(ErrorKind::kUnavailable,
         "{}: cannot be read within the limit on memory, which leaves less than reading may take: {}. "
         "Raise it (ulimit -v, ulimit -d); the file may be sound",
         path, answer.text);
  }
  if (!answer.complete) {
    fail(ErrorKind::kBadData, "{}: the HDF5 library cannot read it safely: {}. It may be malicious", path,
         answer.text);
  }
  unpack(answer.text, path, end);
}

void Hdf5Contents::unpack(const std::string& answer, const std::string& path, int64_t end) {
  Unpacker from(answer, path);
  while (!from.at_end()) {
    const char mark = from.mark();
    if (mark == listed::kRefusal) fail(ErrorKind::kBadData, "{}", from.text());
    if (mark == listed::kGroup) {
      groups_.push_back(from.text());
      continue;
    }
    if (mark == listed::kDataset) {
      datasets_.push_back(dataset_of(from));
      if (!is_inside(datasets_.back(), end)) {
        fail(ErrorKind::kBadData, "{}: dataset {} reaches beyond the end of the file", path,
             datasets_.back().name);
      }
      continue;
    }
    Hdf5Attribute attribute = {.object = from.text(), .name = from.text(), .value = {}};
    if (mark == listed::kString) {
      attribute.value = from.text();
    } else if (mark == listed::kInteger) {
      attribute.value = from.number();
    } else if (mark == listed::kDouble) {
      attribute.value = std::bit_cast<double>(from.number());
    } else if (mark != listed::kOther) {
      from.refuse();
    }
    attributes_.push_back(std::move(attribute));
  }
  by_name_.resize(datasets_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0U);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return datasets_[a].name < datasets_[b].name; });
}

const Hdf5Dataset* Hdf5Contents::find_dataset(std::string_view name) const {
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](uint32_t i, std::string_view wanted) { return datasets_[i].name < wanted; });
  return found == by_name_.end() || datasets_[*found].name != name ? nullptr : &datasets_[*found];
}

bool Hdf5Contents::has_group(std::string_view name) const {
  return std::find(groups_.begin(), groups_.end(), name) != groups_.end();
}

const Hdf5Attribute* Hdf5Contents::find_attribute(std::string_view object, std::string_view name) const {
  const auto found = std::find_if(
      attributes_.begin(), attributes_.end(),
      [&](const Hdf5Attribute& attribute) { return attribute.object == object && attribute.name == name; });
  return found == attributes_.end() ? nullptr : &*found;
}

}  // namespace ventris::data
