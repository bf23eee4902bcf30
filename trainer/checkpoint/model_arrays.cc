// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/model_arrays.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "model/transformer_parameters.h"

namespace ventris {
namespace {

/// An array of zeros for a parameter.
Array array_for(const LogicalParameter& parameter) {
  return {.rows = parameter.rows,
          .cols = parameter.cols,
          .vector = parameter.vector,
          .values = std::vector<float>(static_cast<size_t>(parameter.rows * parameter.cols))};
}

/// The dimensions of a parameter that are channels of the residual stream.
struct ResidualSides {
  bool rows = false;
  bool cols = false;
};

ResidualSides residual_sides(std::string_view name) {
  if (name == kOutputBias) return {};
  const bool weight = name.ends_with("/weight");
  if (weight || name.ends_with("/bias")) {
    const std::string_view layer = name.substr(0, name.rfind('/'));
    // These read the stream with their rows; output and outer write it with their columns and bias.
    for (const char* reader : {"/query", "/key", "/value", "/inner"}) {
      if (layer.ends_with(reader)) return {.rows = weight};
    }
  }
  return {.cols = true};
}

/// The position of channel i of one order in the other, for `channels` (even) of them.
int64_t from_sines_first(int64_t i, int64_t channels) {
  return i < channels / 2 ? 2 * i : 2 * (i - channels / 2) + 1;
}
int64_t from_pairs(int64_t i, int64_t channels) {
  return i % 2 == 0 ? i / 2 : channels / 2 + i / 2;
}

template <typename Order>
Array permuted(const Array& array, ResidualSides sides, const Order& source_of) {
  Array result = array;
  for (int64_t r = 0; r < array.rows; ++r) {
    const int64_t from = sides.rows ? source_of(r, array.rows) : r;
    for (int64_t c = 0; c < array.cols; ++c) {
      const int64_t col = sides.cols ? source_of(c, array.cols) : c;
      result.values[static_cast<size_t>(r * array.cols + c)] =
          array.values[static_cast<size_t>(from * array.cols + col)];
    }
  }
  return result;
}

}  // namespace

ValueFault first_fault(std::span<const float> values, std::string_view name) {
  const bool squares = name == kSecondMoment;
  const auto found = std::ranges::find_if(
      values, [squares](float value) { return !std::isfinite(value) || (squares && value < 0.0F); });
  if (found == values.end()) return {};
  return {std::isfinite(*found) ? "a negative number" : "NaN or Inf", found - values.begin()};
}

std::string fault_in(std::span<const float> values, const std::string& name) {
  const ValueFault fault = first_fault(values, name);
  return fault.what.empty() ? "" : fmt::format("{} in {}", fault.what, name);
}

std::vector<int64_t> Array::shape() const {
  if (vector) return {cols};
  return {rows, cols};
}

Array transposed(const Array& array) {
  Array result{.rows = array.cols, .cols = array.rows, .vector = false, .values = {}};
  result.values.resize(array.values.size());
  for (int64_t r = 0; r < array.rows; ++r) {
    for (int64_t c = 0; c < array.cols; ++c) {
      result.values[static_cast<size_t>(c * array.rows + r)] =
          array.values[static_cast<size_t>(r * array.cols + c)];
    }
  }
  return result;
}

Array stacked(const std::vector<Array>& arrays) {
  Array result = arrays.front();
  for (size_t i = 1; i < arrays.size(); ++i) {
    const Array& next = arrays[i];
    VENTRIS_CHECK(next.vector == result.vector && (next.vector || next.cols == result.cols),
                  "arrays of {} and {} columns are stacked", result.cols, next.cols);
    result.values.insert(result.values.end(), next.values.begin(), next.values.end());
    (result.vector ? result.cols : result.rows) += result.vector ? next.cols : next.rows;
  }
  return result;
}

ModelArrays::ModelArrays(Context& context, const ParameterStore& store, ConstTensor flat, ChannelOrder order)
    : store_(store), values_(context, flat), order_(order) {}

ModelArrays::ModelArrays(const ParameterStore& store, ConstTensor host, ChannelOrder order)
    : store_(store), values_(host), order_(order) {}

Array ModelArrays::get(const std::string& name) const {
  const LogicalParameter* parameter = store_.find(name);
  VENTRIS_CHECK(parameter != nullptr, "the model has no parameter {}", name);
  const ConstTensor view = store_.logical_block(values_.view(), *parameter);
  Array array = array_for(*parameter);
  for (int64_t r = 0; r < view.rows; ++r)
    std::copy_n(view.row<float>(r), view.cols, array.values.data() + r * view.cols);
  if (order_ == ChannelOrder::kPairs) return array;
  return permuted(array, residual_sides(name), from_sines_first);
}

std::vector<int64_t> shape_in_files(const LogicalParameter& parameter) {
  if (parameter.vector) return {parameter.cols};
  return {parameter.rows, parameter.cols};
}

void fill_parameters(Context& context, const ParameterStore& store, Tensor flat, const std::string& origin,
                     ChannelOrder order,
                     const std::function<void(const LogicalParameter&, std::vector<float>&)>& read,
                     const std::function<void(ConstTensor)>& check) {
  Tensor host = flat;
  const bool in_place = context.device() == Device::kCpu;
  std::vector<char> bytes(in_place ? 0 : static_cast<size_t>(host.size()) * size_of(host.dtype));
  if (!in_place) host.data = bytes.data();
  for (const LogicalParameter& parameter : store.logical()) {
    Array array = array_for(parameter);
    read(parameter, array.values);
    if (!std::all_of(array.values.begin(), array.values.end(), [](float x) { return std::isfinite(x); })) {
      throw UnsoundState(origin, "NaN or Inf in parameter " + parameter.name);
    }
    if (order == ChannelOrder::kSinesFirst) {
      array = permuted(array, residual_sides(parameter.name), from_pairs);
    }
    const Tensor view = store.logical_block(host, parameter);
    for (int64_t r = 0; r < view.rows; ++r)
      std::copy_n(array.values.data() + r * view.cols, view.cols, view.row<float>(r));
  }
  if (check) check(host);
  if (!in_place) copy_to_device(context, flat.data, bytes.data(), bytes.size());
}

}  // namespace ventris
