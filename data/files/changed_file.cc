// SPDX-License-Identifier: Apache-2.0
#include "data/files/changed_file.h"

#include <algorithm>
#include <limits>

#include "data/error.h"
#include "data/files/digest_tree.h"

namespace ventris::data {

void fail_changed(const std::string& path, const std::string& difference) {
  fail(
      ErrorKind::kBadData,
      "{}: {}: it was changed, or cut, after ventris wrote it. Copy it again. If another program wrote to it, "
      "take a copy from before, or make it with ventris again.",
      path, difference);
}

void require_length(const std::string& path, int64_t bytes, uint64_t recorded) {
  if (recorded == static_cast<uint64_t>(bytes - kUserBlockBytes)) return;
  // A record that is damaged may be any number.
  constexpr auto kBlock = static_cast<uint64_t>(kUserBlockBytes);
  const uint64_t expected = std::min(recorded, std::numeric_limits<uint64_t>::max() - kBlock) + kBlock;
  fail_changed(path, fmt::format("its length is {} bytes, but {} were written", bytes, expected));
}

}  // namespace ventris::data
