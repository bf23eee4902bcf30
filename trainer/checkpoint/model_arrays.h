// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/device/error.h"
#include "backend/device/transfer.h"
#include "model/parameters.h"

namespace ventris {

/// Adam's moments in a checkpoint.
inline constexpr const char* kFirstMoment = "/adam/m";
inline constexpr const char* kSecondMoment = "/adam/v";

/// The first value of an array of a checkpoint that training cannot produce: NaN, Inf, and in Adam's second
/// moment, a mean of squares, a negative number.
struct ValueFault {
  std::string_view what;  // "NaN or Inf"; "" if all are sound
  int64_t at = 0;
};
ValueFault first_fault(std::span<const float> values, std::string_view name);
/// The same as text: "NaN or Inf in /adam/m", or "".
std::string fault_in(std::span<const float> values, const std::string& name);

/// A file has numbers that training cannot produce.
class UnsoundState : public Error {
 public:
  /// `fault` as "NaN or Inf in /adam/m".
  UnsoundState(const std::string& path, const std::string& fault)
      : Error(ExitCode::kBadData,
              fmt::format("{}: there is {}: the run that wrote it diverged, or the file was changed; "
                          "use an earlier checkpoint",
                          path, fault)),
        fault_(fault) {}
  const std::string& fault() const { return fault_; }

 private:
  std::string fault_;
};

/// A parameter in host memory: row-major f32. A vector has one row.
struct Array {
  int64_t rows = 0;
  int64_t cols = 0;
  bool vector = false;
  std::vector<float> values;  // [rows, cols]

  std::vector<int64_t> shape() const;  // as in files: a vector has one dimension
};

Array transposed(const Array& array);
/// Concatenates rows; all have the same columns. Vectors are joined to a longer vector.
Array stacked(const std::vector<Array>& arrays);

/// Bytes of numbers.
template <typename T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// The order of the channels of the residual stream. Ours interleaves sine and cosine positions, as in the
/// paper; Marian and its derivatives have all sines before all cosines.
enum class ChannelOrder { kPairs, kSinesFirst };

/// The logical parameters of a model, one at a time, in host memory. With kSinesFirst the channels of the
/// residual stream are permuted in everything that reads or writes them: the function of the model, with
/// positions in that order, is the same. The store must outlive the object.
class ModelArrays {
 public:
  ModelArrays(Context& context, const ParameterStore& store, ChannelOrder order)
      : ModelArrays(context, store, store.values(), order) {}
  /// For another flat buffer with the layout of store.values().
  ModelArrays(Context& context, const ParameterStore& store, ConstTensor flat, ChannelOrder order);
  /// For a flat buffer in host memory, which must outlive the object.
  ModelArrays(const ParameterStore& store, ConstTensor host, ChannelOrder order);
  Array get(const std::string& name) const;
  const std::vector<LogicalParameter>& logical() const { return store_.logical(); }
  const ParameterStore& store() const { return store_; }
  /// The flat buffer in host memory, in our order of channels.
  ConstTensor values() const { return values_.view(); }

 private:
  const ParameterStore& store_;
  HostCopy values_;
  ChannelOrder order_;
};

std::vector<int64_t> shape_in_files(const LogicalParameter& parameter);

/// Fills all logical parameters of `flat`, laid out as store.values() and on the context's device. `read`
/// fills the values of one, sized already, whose channels are in that order; `check`, if given, then gets all
/// of them in host memory, laid out as `flat`. Throws Error(kBadData) naming `origin` and the parameter if
/// one holds NaN or Inf; then, and if `read` or `check` throws, `flat` is undefined.
void fill_parameters(Context& context, const ParameterStore& store, Tensor flat, const std::string& origin,
                     ChannelOrder order,
                     const std::function<void(const LogicalParameter&, std::vector<float>&)>& read,
                     const std::function<void(ConstTensor)>& check = {});

}  // namespace ventris
