// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/file_precision.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "backend/device/error.h"
#include "backend/ops/int8_scale.h"
#include "model/transformer_parameters.h"

namespace ventris {
namespace {

bool is_multiplied(const LogicalParameter& parameter) {
  return is_table(parameter.name) || parameter.name.ends_with("/weight");
}

data::ElementType element_type_of(FilePrecision precision) {
  return precision == FilePrecision::kInt8   ? data::ElementType::kI8
         : precision == FilePrecision::kBF16 ? data::ElementType::kBF16
                                             : data::ElementType::kF32;
}

/// Calls each(element, output) for all elements of a matrix in rows.
template <typename Each>
void for_each_element(int64_t rows, int64_t cols, Outputs outputs, Each&& each) {
  size_t element = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      each(element++, static_cast<size_t>(outputs == Outputs::kRows ? r : c));
    }
  }
}

/// Zero, or normal and of at most 16 significant bits, so that its products with integers below 2^8 are
/// exact.
bool is_scale(float scale) {
  constexpr uint32_t kDropped = (1U << 8) - 1;
  const uint32_t bits = std::bit_cast<uint32_t>(scale);
  return bits == 0 || (std::isnormal(scale) && scale > 0.0F && (bits & kDropped) == 0);
}

/// The values after writing and reading.
void round_values(const LogicalParameter& parameter, FilePrecision precision, Array& array) {
  if (precision == FilePrecision::kBF16) {
    for (float& value : array.values) value = static_cast<float>(BF16(value));
    return;
  }
  const Outputs outputs = outputs_of(parameter);
  const Int8Matrix rounded = int8_matrix(array, outputs);
  for_each_element(array.rows, array.cols, outputs, [&](size_t element, size_t output) {
    array.values[element] = rounded.scales[output] * static_cast<float>(rounded.values[element]);
  });
}

}  // namespace

const char* name_of(FilePrecision precision) {
  return precision == FilePrecision::kInt8 ? "int8" : precision == FilePrecision::kBF16 ? "bf16" : "f32";
}

FilePrecision precision_named(const std::string& name, const std::string& origin) {
  for (const FilePrecision precision : {FilePrecision::kBF16, FilePrecision::kInt8}) {
    if (name == name_of(precision)) return precision;
  }
  fail(ExitCode::kBadData,
       "{}: its parameters have the precision '{}', but bf16 or int8 is expected; "
       "was it written by a later version?",
       origin, name);
}

FilePrecision precision_of(const LogicalParameter& parameter, FilePrecision file) {
  return is_multiplied(parameter) ? file : FilePrecision::kF32;
}

std::vector<StoredArray> arrays_of(const LogicalParameter& parameter, FilePrecision file) {
  const FilePrecision precision = precision_of(parameter, file);
  std::vector<StoredArray> arrays = {{parameter.name, element_type_of(precision), shape_in_files(parameter)}};
  if (precision == FilePrecision::kInt8) {
    arrays.push_back(
        {std::string(kScales) + parameter.name, data::ElementType::kF32, shape_of_scales(parameter)});
  }
  return arrays;
}

std::string_view StoredValues::bytes(std::string_view name) {
  const bool scales = name.starts_with(kScales);
  const LogicalParameter& parameter = *arrays_.store().find(name.substr(scales ? kScales.size() : 0));
  array_ = arrays_.get(parameter.name);
  switch (precision_of(parameter, precision_)) {
    case FilePrecision::kF32:
      break;
    case FilePrecision::kBF16:
      return bytes_of(rounded_ = bf16_values(array_.values));
    case FilePrecision::kInt8:
      matrix_ = int8_matrix(array_, outputs_of(parameter));
      return scales ? bytes_of(matrix_.scales) : bytes_of(matrix_.values);
  }
  return bytes_of(array_.values);
}

Outputs outputs_of(const LogicalParameter& parameter) {
  return is_table(parameter.name) ? Outputs::kRows : Outputs::kColumns;
}

std::vector<int64_t> shape_of_scales(const LogicalParameter& parameter) {
  if (outputs_of(parameter) == Outputs::kRows) return {parameter.rows, 1};
  return {1, parameter.cols};
}

Int8Matrix int8_matrix(const Array& matrix, Outputs outputs) {
  Int8Matrix result;
  result.values.resize(matrix.values.size());
  result.scales.resize(static_cast<size_t>(outputs == Outputs::kRows ? matrix.rows : matrix.cols));
  // First the largest magnitudes, then the factors.
  for_each_element(matrix.rows, matrix.cols, outputs, [&](size_t element, size_t output) {
    result.scales[output] = std::max(result.scales[output], std::abs(matrix.values[element]));
  });
  std::vector<float> inverses;
  for (float& scale : result.scales) {
    scale = int8_scale(scale);
    inverses.push_back(int8_inverse(scale));
  }
  for_each_element(matrix.rows, matrix.cols, outputs, [&](size_t element, size_t output) {
    result.values[element] = int8_quantized(matrix.values[element], inverses[output]);
  });
  return result;
}

std::vector<BF16> bf16_values(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

void round_parameters(Context& context, ParameterStore& store, FilePrecision precision,
                      const std::string& origin) {
  if (precision == FilePrecision::kF32) return;
  const ModelArrays arrays(context, store, ChannelOrder::kPairs);
  fill_parameters(context, store, store.values(), origin, ChannelOrder::kPairs,
                  [&](const LogicalParameter& parameter, std::vector<float>& values) {
                    Array array = arrays.get(parameter.name);
                    if (precision_of(parameter, precision) != FilePrecision::kF32) {
                      round_values(parameter, precision, array);
                    }
                    if (!std::all_of(array.values.begin(), array.values.end(),
                                     [](float x) { return std::isfinite(x); })) {
                      fail(ExitCode::kBadData, "{}: parameter {} holds a number that is too large for {}",
                           origin, parameter.name, name_of(precision));
                    }
                    values = std::move(array.values);
                  });
}

void widen(const LogicalParameter& parameter, FilePrecision precision, const uint8_t* from,
           const std::vector<float>& scales, const std::string& origin, std::vector<float>& values) {
  if (precision == FilePrecision::kBF16) {
    // From the front: a write never overwrites unread elements.
    for (size_t i = 0; i < values.size(); ++i) {
      BF16 value;
      std::memcpy(&value, from + i * sizeof(value), sizeof(value));
      values[i] = static_cast<float>(value);
    }
    return;
  }
  if (!std::all_of(scales.begin(), scales.end(), is_scale)) {
    fail(ExitCode::kBadData,
         "{}: parameter {} has a scale that is negative, not finite, or of more than 16 significant bits",
         origin, parameter.name);
  }
  bool in_range = true;
  for_each_element(parameter.rows, parameter.cols, outputs_of(parameter), [&](size_t element, size_t output) {
    const auto q = static_cast<int8_t>(from[element]);
    in_range = in_range && q >= -127;
    values[element] = scales[output] * static_cast<float>(q);
  });
  if (!in_range) {
    fail(ExitCode::kBadData, "{}: parameter {} holds the integer -128; expected -127 to 127", origin,
         parameter.name);
  }
}

uint8_t* end_of(std::vector<float>& values, FilePrecision precision) {
  const size_t bytes = values.size() * sizeof(float);
  return reinterpret_cast<uint8_t*>(values.data()) + bytes -
         values.size() * size_of(element_type_of(precision));
}

}  // namespace ventris
