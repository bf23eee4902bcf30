// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backend/device/dtype.h"
#include "data/io/element_type.h"
#include "model/parameters.h"
#include "trainer/checkpoint/model_arrays.h"

namespace ventris {

/// The element type in a file of the matrices that are multiplied: the weights of the linear layers and the
/// embedding. Vectors and tables of positions are f32 in every file.
enum class FilePrecision { kF32, kBF16, kInt8 };

/// Attribute of "/" in weights files, and key in the metadata of safetensors files, with bf16 or int8.
inline constexpr const char* kPrecisionAttribute = "precision";

/// "f32", "bf16", "int8", as on the command line and in the attribute.
const char* name_of(FilePrecision precision);
/// The precision named in a bf16 or int8 file. Throws Error(kBadData) naming `origin` for other text.
FilePrecision precision_named(const std::string& name, const std::string& origin);

/// The element type of a parameter in a file of that precision: f32 if it is not multiplied.
FilePrecision precision_of(const LogicalParameter& parameter, FilePrecision file);

/// An array by which a file holds a parameter: its values under its name, or the scales of one in int8 under
/// that name after kScales.
struct StoredArray {
  std::string name;
  data::ElementType type;
  std::vector<int64_t> shape;
};
inline constexpr std::string_view kScales = "scales/";
/// The arrays of a parameter: its values, followed by its scales if they are int8.
std::vector<StoredArray> arrays_of(const LogicalParameter& parameter, FilePrecision file);

/// The arrays of a file of any format that hold a model (StoredArray).
struct ArraysInFile {
  std::string origin;           // for messages
  std::set<std::string> names;  // of all
  /// The type and shape of an array, as "f32 [16, 2]"; `expected`, for messages, is what it should be.
  std::function<std::string(const std::string& name, const std::string& expected)> form;
  /// Reads an array of the expected form.
  std::function<void(const StoredArray& array, void* to)> read;
};

/// The dimension of the outputs of a matrix, each with one scale: columns for weights [in, out], rows for the
/// embedding [tokens, d_model].
enum class Outputs { kRows, kColumns };
Outputs outputs_of(const LogicalParameter& parameter);
/// The shape of the scales, [rows, 1] or [1, columns]: the matrix divided by them is one of q.
std::vector<int64_t> shape_of_scales(const LogicalParameter& parameter);

/// A matrix as scale * q, with the scales of backend/ops/int8_scale.h.
struct Int8Matrix {
  std::vector<int8_t> values;  // [rows, columns]: q, from -127 to 127
  std::vector<float> scales;   // of each output
};
Int8Matrix int8_matrix(const Array& matrix, Outputs outputs);
std::vector<BF16> bf16_values(const std::vector<float>& values);

/// The bytes of arrays in files of that precision, for which the values must be rounded with
/// round_parameters(). `arrays` must outlive the object.
class StoredValues {
 public:
  StoredValues(const ModelArrays& arrays, FilePrecision precision) : arrays_(arrays), precision_(precision) {}
  /// Of the array of that name (StoredArray); valid until the next call.
  std::string_view bytes(std::string_view name);

 private:
  const ModelArrays& arrays_;
  const FilePrecision precision_;
  Array array_;
  std::vector<BF16> rounded_;
  Int8Matrix matrix_;
};

/// Rounds the matrices of a store in f32 to values that a file of that precision holds exactly; rounding
/// twice has no effect. Throws Error(kBadData), naming `origin` and the parameter, if a number is too large
/// for it.
void round_parameters(Context& context, ParameterStore& store, FilePrecision precision,
                      const std::string& origin);

/// The reverse of the two above. `from` are the elements as files have them, and may lie at the end of the
/// memory of `values`, which has the size of the parameter: see end_of(). Throws Error(kBadData), naming
/// `origin` and the parameter, for a scale that int8_scale() does not give, and for a q of -128.
void widen(const LogicalParameter& parameter, FilePrecision precision, const uint8_t* from,
           const std::vector<float>& scales, const std::string& origin, std::vector<float>& values);

/// The destination for reading bf16 or int8 elements, so that they are widened within `values`.
uint8_t* end_of(std::vector<float>& values, FilePrecision precision);

}  // namespace ventris
