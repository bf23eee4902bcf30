// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/parameter_digest.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "backend/device/error.h"
#include "backend/device/transfer.h"
#include "data/io/digest.h"

namespace ventris {

static_assert(std::endian::native == std::endian::little, "numbers are digested as they lie in memory");

std::string parameter_digest(const ParameterStore& store, ConstTensor host_values) {
  VENTRIS_CHECK(host_values.dtype == DType::kF32 && host_values.size() == store.flat_size(),
                "the digest is of {} f32 masters, not of {} {}", store.flat_size(), host_values.size(),
                name_of(host_values.dtype));
  std::vector<const LogicalParameter*> by_name;
  for (const LogicalParameter& parameter : store.logical()) by_name.push_back(&parameter);
  std::sort(by_name.begin(), by_name.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  data::Digest digest;
  for (const LogicalParameter* parameter : by_name) {
    const ConstTensor block = store.logical_block(host_values, *parameter);
    const std::array<int64_t, 2> shape = {block.rows, block.cols};
    digest.add(parameter->name.c_str(), parameter->name.size() + 1);
    digest.add(shape.data(), sizeof(shape));
    for (int64_t r = 0; r < block.rows; ++r) {
      digest.add(block.row<float>(r), static_cast<size_t>(block.cols) * sizeof(float));
    }
  }
  return digest.hexadecimal();
}

std::string parameter_digest(Context& context, const ParameterStore& store) {
  return parameter_digest(store, HostCopy(context, store.values()).view());
}

}  // namespace ventris
