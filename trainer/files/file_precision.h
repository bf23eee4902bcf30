#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/dtype.h"
#include "model/parameters.h"
#include "trainer/files/model_arrays.h"

namespace ventris {

/// How a file holds the matrices that are multiplied, which are the weights of the linear layers and the
/// embedding. All else, vectors and tables of positions, is f32 in every file.
enum class FilePrecision { kF32, kBF16, kInt8 };

/// Attribute of "/" in weights files, and key in the metadata of safetensors files, of less than f32.
inline constexpr const char* kPrecisionAttribute = "precision";

/// "f32", "bf16", "int8": as the command line and the attribute have it.
const char* name_of(FilePrecision precision);
/// The precision that a file of less than f32 names. Throws Error(kBadData) naming `origin` for other text.
FilePrecision precision_named(const std::string& name, const std::string& origin);

/// How a parameter is held in a file of that precision: f32 where it is not multiplied.
FilePrecision precision_of(const LogicalParameter& parameter, FilePrecision file);
/// Bytes of its values there, with their scales.
int64_t bytes_in_file(const LogicalParameter& parameter, FilePrecision file);

/// Along which dimension of a matrix its outputs are: each has one scale. Of weights [in, out] the columns,
/// of the embedding [tokens, d_model] the rows.
enum class Outputs { kRows, kColumns };
Outputs outputs_of(const LogicalParameter& parameter);
/// The shape of the scales, [rows, 1] or [1, columns]: the matrix divided by them is one of q.
std::vector<int64_t> shape_of_scales(const LogicalParameter& parameter);

/// A matrix as scale * q, with the scales of backend/int8_scale.h.
struct Int8Matrix {
  std::vector<int8_t> values;  // [rows, columns]: q, from -127 to 127
  std::vector<float> scales;   // of each output
};
Int8Matrix int8_matrix(const Array& matrix, Outputs outputs);
std::vector<BF16> bf16_values(const std::vector<float>& values);

/// Rounds the matrices of a store in f32 to values that a file of that precision holds exactly; what is
/// rounded already stays. Throws Error(kBadData), naming `origin` and the parameter, where a number is too
/// large for it.
void round_parameters(Context& context, ParameterStore& store, FilePrecision precision,
                      const std::string& origin);

/// The reverse of the two above. `from` are the elements as files have them, and may lie at the end of the
/// memory of `values`, which has the size of the parameter: see end_of(). Throws Error(kBadData), naming
/// `origin` and the parameter, for a scale that int8_scale() does not give, and for a q of -128.
void widen(const LogicalParameter& parameter, FilePrecision precision, const uint8_t* from,
           const std::vector<float>& scales, const std::string& origin, std::vector<float>& values);

/// Where elements of bf16 or int8 are read to, to be widened without memory besides `values`.
uint8_t* end_of(std::vector<float>& values, FilePrecision precision);

}  // namespace ventris
