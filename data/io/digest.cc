// SPDX-License-Identifier: Apache-2.0
#include "data/io/digest.h"

#include <fmt/core.h>

#include <new>

namespace ventris::data {

Digest::Digest() : state_(XXH3_createState(), &XXH3_freeState) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());
}

void Digest::add(const void* data, size_t bytes) {
  if (bytes > 0) XXH3_128bits_update(state_.get(), data, bytes);
}

XXH128_canonical_t Digest::value() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
  return canonical;
}

std::string Digest::hexadecimal() const {
  return data::hexadecimal(value());
}

std::string hexadecimal(const XXH128_canonical_t& value) {
  std::string text;
  for (const unsigned char byte : value.digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace ventris::data
