// SPDX-License-Identifier: Apache-2.0
#include "data/io/npz.h"

#include <stdexcept>

#include "data/error.h"
#include "tests/fuzz/digests.h"
#include "tests/fuzz/harness.h"

namespace ventris::fuzz {
namespace {

void read_npz(std::string_view bytes) {
  const data::NpzFile file({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "input");
  std::string refused;
  for (const std::string& name : file.names()) {
    if (!file.contains(name)) throw std::logic_error("an array is not found by its name");
    try {
      const data::NpzArray array = file.read(name);
      uint64_t elements = 1;
      for (const int64_t extent : array.shape) elements *= static_cast<uint64_t>(extent);
      const bool whole = elements == 0 ? array.data.empty() : array.data.size() % elements == 0;
      if (array.type.empty() || !whole) throw std::logic_error("an array does not fit its shape");
    } catch (const data::DataError& error) {
      refused = error.what();
    }
  }
  if (!refused.empty()) data::fail(data::ErrorKind::kBadData, "{}", refused);
}

}  // namespace

void run_npz(std::string_view bytes) {
  try {
    read_npz(bytes);
  } catch (const data::DataError&) {
  }
  read_npz(with_right_zip_checksums(bytes));
}

}  // namespace ventris::fuzz
