// SPDX-License-Identifier: Apache-2.0
#include "model/parameters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/device/elementary.h"
#include "backend/device/error.h"
#include "backend/device/philox.h"
#include "backend/device/transfer.h"
#include "backend/ops/cast.h"

namespace ventris {

namespace {

constexpr int64_t kTensorAlignment = 64;  // elements

int64_t round_up(int64_t n) {
  return (n + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

/// The matrix [rows, cols] that starts at `offset` of a flat buffer.
Tensor block(Tensor flat, int64_t offset, int64_t rows, int64_t cols) {
  Tensor view = flat.col_range(offset, rows * cols);
  view.rows = rows;
  view.cols = view.stride = cols;
  return view;
}

}  // namespace

ParameterId ParameterStore::declare(const std::vector<std::string>& names, int64_t rows, int64_t cols_each,
                                    int64_t padded_rows, bool vector, Initializer initializer) {
  VENTRIS_CHECK(!flat_values_, "parameter {} is declared after the store was allocated", names.front());
  VENTRIS_CHECK(rows > 0 && cols_each > 0, "parameter {} has shape [{}, {}]", names.front(), rows, cols_each);
  const auto id = static_cast<ParameterId>(tensors_.size());
  for (const std::string& name : names) {
    VENTRIS_CHECK(find(name) == nullptr, "parameter {} is declared twice", name);
    const auto position = static_cast<int64_t>(&name - names.data());
    logical_.push_back({name, id, rows, position * cols_each, cols_each, vector, initializer, false});
  }
  const int64_t stored_rows = std::max(rows, padded_rows);
  const int64_t cols = cols_each * static_cast<int64_t>(names.size());
  tensors_.push_back({stored_rows, cols, flat_size_, flat_size_, vector, {{0, cols}}});
  flat_size_ += round_up(stored_rows * cols);
  return id;
}

ParameterId ParameterStore::declare_matrix(const std::string& name, int64_t rows, int64_t cols,
                                           Initializer initializer, int64_t padded_rows) {
  return declare({name}, rows, cols, padded_rows, false, initializer);
}

ParameterId ParameterStore::declare_vector(const std::string& name, int64_t size, Initializer initializer,
                                           int64_t padded_size) {
  const ParameterId id = declare({name}, 1, std::max(size, padded_size), 1, true, initializer);
  logical_.back().cols = size;
  return id;
}

ParameterId ParameterStore::declare_fused_matrix(const std::vector<std::string>& names, int64_t rows,
                                                 int64_t cols_each, Initializer initializer) {
  return declare(names, rows, cols_each, rows, false, initializer);
}

ParameterId ParameterStore::declare_fused_vector(const std::vector<std::string>& names, int64_t size_each,
                                                 Initializer initializer) {
  return declare(names, 1, size_each, 1, true, initializer);
}

void ParameterStore::freeze(const std::vector<std::string>& names) {
  VENTRIS_CHECK(!flat_values_, "parameters are frozen after the store was allocated");
  for (const std::string& name : names) {
    const auto found = std::find_if(logical_.begin(), logical_.end(), [&](const LogicalParameter& parameter) {
      return parameter.name == name;
    });
    VENTRIS_CHECK(found != logical_.end(), "there is no parameter {} to freeze", name);
    found->frozen = true;
    tensors_[static_cast<size_t>(found->tensor)].trained.clear();
  }
  for (const LogicalParameter& parameter : logical_) {  // those that share a tensor with a frozen one
    std::vector<Columns>& trained = tensors_[static_cast<size_t>(parameter.tensor)].trained;
    if (parameter.frozen) continue;
    if (!trained.empty() &&
        trained.back().begin + trained.back().count >= parameter.col_begin + parameter.cols)
      continue;
    if (!trained.empty() && trained.back().begin + trained.back().count == parameter.col_begin) {
      trained.back().count += parameter.cols;
    } else {
      trained.push_back({parameter.col_begin, parameter.cols});
    }
  }
  int64_t trained = 0;
  int64_t frozen = 0;
  for (Stored& stored : tensors_) {
    stored.gradient = trained;
    stored.offset = frozen;
    (stored.trained.empty() ? frozen : trained) += round_up(stored.rows * stored.cols);
  }
  frozen_size_ = frozen;
  for (Stored& stored : tensors_) {
    if (!stored.trained.empty()) stored.offset = frozen_size_ + stored.gradient;
  }
}

std::vector<ParameterStore::TrainedRange> ParameterStore::trained_ranges() const {
  std::vector<TrainedRange> ranges;
  int64_t declared = 0;
  for (const Stored& stored : tensors_) {
    const int64_t size = round_up(stored.rows * stored.cols);
    if (!stored.trained.empty()) {
      if (!ranges.empty() && ranges.back().declared + ranges.back().count == declared) {
        ranges.back().count += size;
      } else {
        ranges.push_back({declared, stored.gradient, size});
      }
    }
    declared += size;
  }
  return ranges;
}

void ParameterStore::allocate(Device device, DType dtype, bool gradients) {
  VENTRIS_CHECK(!flat_values_, "the store is allocated twice");
  VENTRIS_CHECK(flat_size_ > 0, "the store has no parameters");
  dtype_ = dtype;
  on_cuda_ = device == Device::kCuda;
  const auto plan = [&](Arena& arena) {
    flat_values_ = arena.allocate(1, flat_size_, master_dtype(dtype));
    if (gradients) flat_gradients_ = arena.allocate(1, trained_size(), master_dtype(dtype));
    if (dtype == DType::kBF16) flat_compute_ = arena.allocate(1, flat_size_, DType::kBF16);
  };
  Arena measure;
  plan(measure);
  memory_ = Arena(device, measure.high_water(), gradients ? "parameters and their gradients" : "parameters");
  plan(memory_);
}

void ParameterStore::refresh_compute_copy(Context& context) {
  if (flat_compute_) cast(context, {.source = flat_values_, .destination = flat_compute_});
}

int64_t ParameterStore::parameter_count() const {
  int64_t count = 0;
  for (const LogicalParameter& parameter : logical_) count += parameter.rows * parameter.cols;
  return count;
}

int64_t ParameterStore::frozen_count() const {
  int64_t count = 0;
  for (const LogicalParameter& parameter : logical_)
    count += parameter.frozen ? parameter.rows * parameter.cols : 0;
  return count;
}

ParameterStore ParameterStore::packed_copy(Context& context, Packing packing,
                                           const std::vector<ParameterId>& weights,
                                           const std::vector<ParameterId>& tables,
                                           ParameterStore* emptied) const {
  VENTRIS_CHECK(flat_values_ && !on_cuda_ && dtype_ == factor_dtype(packing),
                "a store of {} cannot be packed as {}", name_of(dtype_), name_of(packing));
  VENTRIS_CHECK(emptied == nullptr || emptied == this, "another store would be emptied");
  const auto is_in = [](const std::vector<ParameterId>& ids, size_t id) {
    return std::find(ids.begin(), ids.end(), static_cast<ParameterId>(id)) != ids.end();
  };
  ParameterStore copy;
  copy.tensors_ = tensors_;
  copy.logical_ = logical_;
  copy.flat_size_ = flat_size_;
  copy.dtype_ = dtype_;
  const auto plan = [&](Arena& arena) {
    copy.kept_.assign(tensors_.size(), {});
    copy.packed_.assign(tensors_.size(), {});
    for (size_t id = 0; id < tensors_.size(); ++id) {
      const Stored& stored = tensors_[id];
      const bool is_table = is_in(tables, id);
      if (!is_in(weights, id) && !is_table) {
        copy.kept_[id] = arena.allocate(stored.rows, stored.cols, master_dtype(dtype_));
        continue;
      }
      PackedMatrix packed{nullptr, stored.rows, stored.cols, packing};
      if (is_table) std::swap(packed.rows, packed.cols);
      packed.data = arena.allocate(packed_bytes(packed.rows, packed.cols, packing));
      copy.packed_[id] = packed;
    }
  };
  Arena measure;
  plan(measure);
  copy.memory_ = Arena(Device::kCpu, measure.high_water(), "packed parameters");
  plan(copy.memory_);
  for (size_t id = 0; id < tensors_.size(); ++id) {
    const Stored& stored = tensors_[id];
    const Tensor from = block(flat_values_, stored.offset, stored.rows, stored.cols);
    if (copy.packed_[id]) {
      pack(context, {.source = from, .transpose = is_in(tables, id), .to = copy.packed_[id]});
    } else {
      cast(context, {.source = from, .destination = copy.kept_[id]});
    }
    if (emptied != nullptr) {
      emptied->memory_.discard(from.data, static_cast<size_t>(from.size()) * size_of(from.dtype));
    }
  }
  return copy;
}

ConstTensor ParameterStore::value(ParameterId id) const {
  if (is_packed()) {
    const Tensor& kept = kept_[static_cast<size_t>(id)];
    VENTRIS_CHECK(kept, "parameter {} exists only in packed form", id);
    return kept;
  }
  const Stored& stored = tensors_[static_cast<size_t>(id)];
  const Tensor& flat = flat_compute_ && !stored.vector ? flat_compute_ : flat_values_;
  return block(flat, stored.offset, stored.rows, stored.cols);
}

ConstTensor ParameterStore::bias(ParameterId id) const {
  if (!on_cuda_ || !flat_compute_) return value(id);
  const Stored& stored = tensors_[static_cast<size_t>(id)];
  return block(flat_compute_, stored.offset, stored.rows, stored.cols);
}

Tensor ParameterStore::gradient(ParameterId id) const {
  VENTRIS_CHECK(flat_gradients_, "the store was allocated without gradients");
  const Stored& stored = tensors_[static_cast<size_t>(id)];
  if (stored.trained.empty()) return {};
  return block(flat_gradients_, stored.gradient, stored.rows, stored.cols);
}

Tensor ParameterStore::logical_block(Tensor flat, const LogicalParameter& parameter) const {
  VENTRIS_CHECK(flat.rows == 1 && flat.cols == flat_size_, "a buffer of [{}, {}], not of [1, {}]", flat.rows,
                flat.cols, flat_size_);
  const Stored& stored = tensors_[static_cast<size_t>(parameter.tensor)];
  return block(flat, stored.offset, stored.rows, stored.cols)
      .row_range(0, parameter.rows)
      .col_range(parameter.col_begin, parameter.cols);
}

ConstTensor ParameterStore::logical_block(ConstTensor flat, const LogicalParameter& parameter) const {
  // Converts between kinds of views; nothing is written.
  return logical_block(Tensor{const_cast<void*>(flat.data), flat.rows, flat.cols, flat.stride, flat.dtype},
                       parameter);
}

Tensor ParameterStore::trained_block(Tensor flat, const LogicalParameter& parameter) const {
  VENTRIS_CHECK(flat.rows == 1 && flat.cols == trained_size(), "a buffer of [{}, {}], not of [1, {}]",
                flat.rows, flat.cols, trained_size());
  if (parameter.frozen) return {};
  const Stored& stored = tensors_[static_cast<size_t>(parameter.tensor)];
  return block(flat, stored.gradient, stored.rows, stored.cols)
      .row_range(0, parameter.rows)
      .col_range(parameter.col_begin, parameter.cols);
}

Tensor ParameterStore::logical_value(const LogicalParameter& parameter) const {
  if (is_packed()) {
    const Tensor& kept = kept_[static_cast<size_t>(parameter.tensor)];
    VENTRIS_CHECK(kept, "parameter {} exists only in packed form", parameter.name);
    return kept.row_range(0, parameter.rows).col_range(parameter.col_begin, parameter.cols);
  }
  return logical_block(flat_values_, parameter);
}

Tensor ParameterStore::logical_gradient(const LogicalParameter& parameter) const {
  VENTRIS_CHECK(flat_gradients_, "the store was allocated without gradients");
  return trained_block(flat_gradients_, parameter);
}

const LogicalParameter& ParameterStore::logical_at(int64_t element) const {
  VENTRIS_CHECK(element >= 0 && element < flat_size_, "element {} of {}", element, flat_size_);
  // Blocks of columns of one tensor follow one another.
  auto owner = logical_.begin();
  for (auto parameter = logical_.begin(); parameter != logical_.end(); ++parameter) {
    const Stored& stored = tensors_[static_cast<size_t>(parameter->tensor)];
    const int64_t at = element - stored.offset;
    const bool inside = at >= 0 && at < round_up(stored.rows * stored.cols);
    if (inside && at % stored.cols >= parameter->col_begin) owner = parameter;
  }
  return *owner;
}

const LogicalParameter* ParameterStore::find(std::string_view name) const {
  const auto found = std::find_if(logical_.begin(), logical_.end(),
                                  [&](const LogicalParameter& parameter) { return parameter.name == name; });
  return found == logical_.end() ? nullptr : &*found;
}

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
