// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>
#include <vector>

#include "backend/device/elementary.h"
#include "backend/device/error.h"
#include "backend/device/philox.h"
#include "backend/device/transfer.h"
#include "model/parameters.h"

namespace ventris {
namespace {

/// FNV-1a, 64 bits (Fowler, Noll and Vo).
uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

/// In the open interval (0, 1).
double unit(uint32_t bits) {
  return (bits + 0.5) * 0x1p-32;
}

/// Two independent N(0, 1) numbers (Box and Muller 1958).
std::array<double, 2> normal_pair(uint32_t a, uint32_t b) {
  const double radius = std::sqrt(-2.0 * portable_log(unit(a)));
  const double angle = 2.0 * std::numbers::pi * unit(b);
  return {radius * portable_cos(angle), radius * portable_sin(angle)};
}

std::array<double, 4> random_quad(Initializer initializer, double spread,
                                  const std::array<uint32_t, 4>& bits) {
  std::array<double, 4> values{};
  if (initializer == Initializer::kNormal) {
    const auto [a, b] = normal_pair(bits[0], bits[1]);
    const auto [c, d] = normal_pair(bits[2], bits[3]);
    values = {a, b, c, d};
  } else {
    for (size_t i = 0; i < 4; ++i) values[i] = 2.0 * unit(bits[i]) - 1.0;
  }
  for (double& value : values) value *= spread;
  return values;
}

/// Element e of the parameter, counted by rows, is number e % 4 of Philox at counter {e / 4, hash of the
/// name} and the seed as key.
template <typename T>
void fill_random(Tensor view, const LogicalParameter& parameter, uint64_t seed) {
  const bool normal = parameter.initializer == Initializer::kNormal;
  const double spread = normal ? 1.0 / std::sqrt(static_cast<double>(parameter.cols))
                               : std::sqrt(6.0 / static_cast<double>(parameter.rows + parameter.cols));
  const uint64_t hash = hash_of(parameter.name);
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  std::array<double, 4> quad{};
  uint64_t element = 0;
  for (int64_t row = 0; row < view.rows; ++row) {
    T* out = view.row<T>(row);
    for (int64_t col = 0; col < view.cols; ++col, ++element) {
      if (element % 4 == 0) {
        const uint64_t block = element / 4;
        quad = random_quad(parameter.initializer, spread,
                           philox4x32_10({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                                          static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32)},
                                         key));
      }
      out[col] = static_cast<T>(quad[element % 4]);
    }
  }
}

template <typename T>
void fill(Tensor view, const LogicalParameter& parameter, uint64_t seed) {
  switch (parameter.initializer) {
    case Initializer::kXavierUniform:
    case Initializer::kNormal:
      fill_random<T>(view, parameter, seed);
      return;
    case Initializer::kZero:
    case Initializer::kOne:
      break;
  }
  const T value = parameter.initializer == Initializer::kOne ? T{1} : T{0};
  for (int64_t row = 0; row < view.rows; ++row) std::fill_n(view.row<T>(row), view.cols, value);
}

}  // namespace

void ParameterStore::initialize(Context& context, uint64_t seed) {
  VENTRIS_CHECK(flat_values_, "the store is not allocated");
  std::vector<char> bytes(static_cast<size_t>(flat_size_) * size_of(flat_values_.dtype));
  Tensor host = flat_values_;
  host.data = bytes.data();
  for (const LogicalParameter& parameter : logical_) {
    const Tensor view = logical_block(host, parameter);
    if (view.dtype == DType::kF64) {
      fill<double>(view, parameter, seed);
    } else {
      fill<float>(view, parameter, seed);
    }
  }
  copy_to_device(context, flat_values_.data, host.data, bytes.size());
  refresh_compute_copy(context);
}

}  // namespace ventris
