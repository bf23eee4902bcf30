// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/sound_state.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <type_traits>
#include <utility>

#include "data/io/hdf5_reader.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/weights.h"

namespace ventris {
namespace {

constexpr int64_t kMaxStateCount = int64_t{1} << 53;

struct Fault {
  std::string_view what;  // "" for none
  int64_t at = 0;
};

Fault first_fault(std::span<const float> values, std::string_view name) {
  const bool squares = name == kSecondMoment;
  const auto found = std::find_if(values.begin(), values.end(), [squares](float value) {
    return !std::isfinite(value) || (squares && value < 0.0F);
  });
  if (found == values.end()) return {};
  return {std::isfinite(*found) ? "a negative number" : "NaN or Inf", found - values.begin()};
}

}  // namespace

std::string fault_in(const TrainingState& state) {
  std::string fault;
  for_each_number(state, [&]<typename T>(const char* name, const T& value) {
    if (!fault.empty()) return;
    if constexpr (std::is_same_v<T, double>) {
      if (!std::isfinite(value)) fault = fmt::format("NaN or Inf in {}", name);
    } else if (value < 0 || value > kMaxStateCount) {
      fault = fmt::format("{} in {}, which counts from 0 to 2^53", value, name);
    }
  });
  if (!fault.empty()) return fault;
  if (state.elapsed_seconds < 0.0) return "a negative number in elapsed_seconds";
  if (state.plateau_factor < 0.0) return "a negative number in plateau_factor";
  const std::pair<const char*, int64_t> bounded[] = {{"best_step", state.best_step},
                                                     {"best_due_step", state.best_due_step},
                                                     {"plateau_best_step", state.plateau_best_step},
                                                     {"skipped_steps", state.skipped_steps}};
  for (const auto& [name, value] : bounded) {
    if (value > state.step) return fmt::format("{} {} at step {}", name, value, state.step);
  }
  return "";
}

std::string fault_in(std::span<const float> values, const std::string& name) {
  const Fault fault = first_fault(values, name);
  return fault.what.empty() ? "" : fmt::format("{} in {}", fault.what, name);
}

std::string fault_in(const CheckpointSnapshot& snapshot) {
  const struct {
    const char* name;
    ConstTensor values;
  } arrays[] = {{kModelGroup, snapshot.values()},
                {kFirstMoment, snapshot.m()},
                {kSecondMoment, snapshot.v()},
                {kAverageGroup, snapshot.average()}};
  const ParameterStore& store = snapshot.store();
  for (const auto& [name, values] : arrays) {  // those of what is trained are the end of the values
    if (!values) continue;
    const Fault fault = first_fault({values.as<float>(), static_cast<size_t>(values.cols)}, name);
    if (fault.what.empty()) continue;
    return fmt::format("{} in {}, at {}", fault.what, name,
                       store.logical_at(store.flat_size() - values.cols + fault.at).name);
  }
  return "";
}

std::string fault_in(const data::Hdf5Reader& reader) {
  TrainingState state;
  for_each_number(state, [&]<typename T>(const char* name, T& value) {
    if (!reader.has_attribute("/", name)) return;
    if constexpr (std::is_same_v<T, double>) {
      value = reader.double_attribute("/", name);
    } else {
      value = reader.int_attribute("/", name);
    }
  });
  return fault_in(state);
}

}  // namespace ventris
