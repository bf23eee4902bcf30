// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/device/transfer.h"
#include "model/parameters.h"

namespace ventris {

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
