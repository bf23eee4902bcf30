// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <string>

namespace ventris::data {

/// XXH3-128 of bytes in pieces.
class Digest {
 public:
  Digest();
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  void add(const void* data, size_t bytes);
  XXH128_canonical_t value() const;
  std::string hexadecimal() const;

 private:
  XXH3_state_t* state_;
};

std::string hexadecimal(const XXH128_canonical_t& value);

}  // namespace ventris::data
