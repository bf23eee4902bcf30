// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <memory>
#include <string>

namespace ventris::data {

/// XXH3-128 of bytes in pieces.
class Digest {
 public:
  Digest();
  void add(const void* data, size_t bytes);
  XXH128_canonical_t value() const;
  std::string hexadecimal() const;

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_;
};

std::string hexadecimal(const XXH128_canonical_t& value);

}  // namespace ventris::data
