// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>

#include "backend/device/error.h"
#include "backend/device/transfer.h"
#include "data/io/element_type.h"
#include "data/io/hdf5_reader.h"
#include "data/io/hdf5_writer.h"
#include "model/transformer_parameters.h"
#include "trainer/checkpoint/model_arrays.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/checkpoint/weights.h"

namespace ventris {
namespace {

constexpr int64_t kMaxStateCount = int64_t{1} << 53;

void check_flat(const OptimizerState& optimizer, const ParameterStore& store) {
  const auto check = [&](ConstTensor flat, const char* name) {
    VENTRIS_CHECK(flat.rows == 1 && flat.cols == store.trained_size() && flat.dtype == DType::kF32,
                  "{} is [{}, {}] {}, not [1, {}] f32", name, flat.rows, flat.cols, name_of(flat.dtype),
                  store.trained_size());
  };
  check(optimizer.m, kFirstMoment);
  check(optimizer.v, kSecondMoment);
  if (optimizer.average) check(optimizer.average, kAverageGroup);
}

/// The bytes of a checkpoint: its arrays, and a little metadata for each.
int64_t expected_bytes(const CheckpointSnapshot& snapshot, const data::TokenizerModels& tokenizers) {
  constexpr int64_t kBytesToDescribe = 512;
  constexpr int64_t kBytesOfNumbers = 4096;  // of the state, and of the names of all attributes
  const ParameterStore& store = snapshot.store();
  const int64_t copies = snapshot.average() ? 2 : 1;
  const TrainingState& state = snapshot.state();
  size_t texts =
      tokenizers.target.size() + tokenizers.source.size() + mix_json(state.mix, state.position.mix).size();
  for_each_text(state, [&](const char*, const std::string& text, bool) { texts += text.size(); });
  const int64_t floats = copies * store.parameter_count() + 2 * store.flat_size();
  return floats * static_cast<int64_t>(sizeof(float)) + static_cast<int64_t>(texts) + kBytesOfNumbers +
         (copies * static_cast<int64_t>(store.logical().size()) + 8) * kBytesToDescribe;
}

void check_sound(const std::string& fault, const std::string& path) {
  if (!fault.empty()) throw UnsoundState(path, fault);
}

size_t flat_bytes(const ParameterStore& store) {
  return static_cast<size_t>(store.flat_size()) * sizeof(float);
}

size_t trained_bytes(const ParameterStore& store) {
  return static_cast<size_t>(store.trained_size()) * sizeof(float);
}

/// A moment in the order of the file, that of the declarations: zero for what is frozen.
void write_moment(data::Hdf5Writer& writer, const char* name, const ParameterStore& store,
                  ConstTensor moment) {
  const std::vector<int64_t> shape = {store.flat_size()};
  if (store.frozen_size() == 0) return writer.write(name, data::ElementType::kF32, shape, moment.data);
  std::vector<float> all(static_cast<size_t>(store.flat_size()));
  for (const auto& [declared, gradient, count] : store.trained_ranges())
    std::copy_n(moment.as<float>() + gradient, count, all.data() + declared);
  writer.write(name, data::ElementType::kF32, shape, all.data());
}

/// Of what is frozen the average is the parameter.
void write_average(data::Hdf5Writer& writer, const CheckpointSnapshot& snapshot) {
  const ParameterStore& store = snapshot.store();
  ConstTensor average = snapshot.average();
  std::vector<float> all;
  if (const int64_t frozen = store.frozen_size(); frozen > 0) {
    all.assign(snapshot.values().as<float>(), snapshot.values().as<float>() + frozen);
    all.insert(all.end(), average.as<float>(), average.as<float>() + average.cols);
    average = {all.data(), 1, store.flat_size(), store.flat_size(), DType::kF32};
  }
  write_parameters(writer, kAverageGroup, ModelArrays(store, average, ChannelOrder::kPairs));
}

/// Reads the average of what is trained.
void read_average(Context& context, const data::Hdf5Reader& reader, const ParameterStore& store, Tensor to) {
  if (store.frozen_size() == 0) return read_parameters(context, reader, kAverageGroup, store, to);
  std::vector<float> whole(static_cast<size_t>(store.flat_size()));
  Context host(ContextOptions{.threads = 1});
  read_parameters(host, reader, kAverageGroup, store,
                  {whole.data(), 1, store.flat_size(), store.flat_size(), DType::kF32});
  copy_to_device(context, to.data, whole.data() + store.frozen_size(), trained_bytes(store));
}

}  // namespace

TrainingState read_state(const data::Hdf5Reader& reader) {
  TrainingState read;
  for_each_number(read, [&]<typename T>(const char* key, T& value) {
    if constexpr (std::is_same_v<T, double>) {
      value = reader.double_attribute("/", key);
    } else {
      value = reader.int_attribute("/", key);
    }
  });
  for_each_text(read, [&](const char* key, std::string& text, bool always) {
    if (always || reader.has_attribute("/", key)) text = reader.string_attribute("/", key);
  });
  if (reader.has_attribute("/", kMixAttribute)) {
    read_mix_json(reader.string_attribute("/", kMixAttribute), reader.path(), read.mix, read.position.mix);
  }
  return read;
}

CheckpointSnapshot::CheckpointSnapshot(Context& context, const ParameterStore& store, bool with_average)
    : store_(store),
      values_(context, flat_bytes(store)),
      m_(context, trained_bytes(store)),
      v_(context, trained_bytes(store)) {
  if (with_average) average_.emplace(context, trained_bytes(store));
}

ConstTensor CheckpointSnapshot::values() const {
  return {values_.data(), 1, store_.flat_size(), store_.flat_size(), DType::kF32};
}

ConstTensor CheckpointSnapshot::view(const HostBuffer& buffer) const {
  const int64_t size = store_.trained_size();
  return {buffer.data(), 1, size, size, DType::kF32};
}

void CheckpointSnapshot::take(const TrainingState& state, const OptimizerState& optimizer) {
  check_flat(optimizer, store_);
  VENTRIS_CHECK(static_cast<bool>(optimizer.average) == average_.has_value(),
                "the snapshot was made {} an average", average_ ? "with" : "without");
  values_.receive(store_.values().data, flat_bytes(store_));
  const size_t bytes = trained_bytes(store_);
  const auto receive = [bytes](HostBuffer& buffer, const Tensor& from) {
    if (from.data != buffer.data()) buffer.receive(from.data, bytes);
  };
  receive(m_, optimizer.m);
  receive(v_, optimizer.v);
  if (average_) receive(*average_, optimizer.average);
  state_ = state;
  for (HostBuffer* buffer : {&values_, &m_, &v_}) buffer->wait_until_done();
  if (average_) average_->wait_until_done();
}

OptimizerState CheckpointSnapshot::room() {
  const auto flat = [this](HostBuffer& buffer) {
    const int64_t size = store_.trained_size();
    return Tensor{buffer.data(), 1, size, size, DType::kF32};
  };
  return {.m = flat(m_), .v = flat(v_), .average = average_ ? flat(*average_) : Tensor{}, .on_host = true};
}

std::string write_checkpoint(const std::string& model_dir, const CheckpointSnapshot& snapshot,
                             const TransformerConfig& config, const data::TokenizerModels& tokenizers,
                             const std::string& provenance) {
  const ParameterStore& store = snapshot.store();
  const TrainingState& state = snapshot.state();
  const std::string path = path_of_checkpoint(model_dir, state.step);
  data::Hdf5Writer writer(path, expected_bytes(snapshot, tokenizers));
  write_model(writer, config, ModelArrays(store, snapshot.values(), ChannelOrder::kPairs), tokenizers);
  write_moment(writer, kFirstMoment, store, snapshot.m());
  write_moment(writer, kSecondMoment, store, snapshot.v());
  if (snapshot.average()) write_average(writer, snapshot);
  writer.write_attribute("/", "format", std::string(kCheckpointFormat));
  writer.write_attribute("/", "provenance", provenance);
  for_each_number(state,
                  [&](const char* name, const auto& value) { writer.write_attribute("/", name, value); });
  for_each_text(state, [&](const char* name, const std::string& text, bool always) {
    if (always || !text.empty()) writer.write_attribute("/", name, text);
  });
  if (!state.mix.plan.empty())
    writer.write_attribute("/", kMixAttribute, mix_json(state.mix, state.position.mix));
  writer.commit();
  writer.verify();
  return path;
}

void load_checkpoint(Context& context, const data::Hdf5Reader& reader, const TransformerConfig& config,
                     ParameterStore& store, const OptimizerState& optimizer, TrainingState& state) {
  check_flat(optimizer, store);
  const std::string& path = reader.path();
  const TransformerConfig in_file = read_config(reader);
  if (reader.string_attribute("/", "format") != kCheckpointFormat) {
    fail(ExitCode::kBadData,
         "{}: is a weights file, without the state that training resumes from; "
         "expected a checkpoint-*.h5 of a run",
         path);
  }
  check_same_network(in_file, config, path);
  const TrainingState read = read_state(reader);
  check_sound(fault_in(read), path);
  read_model(context, reader, store);
  const std::vector<int64_t> flat = {store.flat_size()};
  std::vector<float> moment(static_cast<size_t>(store.flat_size()));
  std::optional<Context> host;
  if (optimizer.on_host) host.emplace(ContextOptions{.threads = 1});
  Context& place = host ? *host : context;
  const auto read_moment = [&](const char* name, const Tensor& to) {
    reader.read(name, data::ElementType::kF32, flat, moment.data());
    check_sound(fault_in(moment, name), path);
    for (const auto& [declared, gradient, count] : store.trained_ranges()) {
      copy_to_device(place, to.as<float>() + gradient, moment.data() + declared,
                     static_cast<size_t>(count) * sizeof(float));
    }
  };
  read_moment(kFirstMoment, optimizer.m);
  read_moment(kSecondMoment, optimizer.v);
  if (optimizer.average) read_average(place, reader, store, optimizer.average);
  state = read;
}

void check_checkpoint(const data::Hdf5Reader& reader) {
  const TrainingState state = read_state(reader);
  check_sound(fault_in(state), reader.path());
  const int64_t named = step_of_checkpoint(reader.path());
  if (named >= 0 && named != state.step) {
    fail(ExitCode::kBadData, "{}: holds step {}, not that of its name: is it a copy? Give it another name",
         reader.path(), state.step);
  }
  Context host(ContextOptions{.threads = 1});
  ParameterStore store;
  static_cast<void>(declare_transformer(read_config(reader), store));
  store.allocate(Device::kCpu, DType::kF32, /*gradients=*/false);
  read_model(host, reader, store);  // translations read the average, if there is one
  const std::vector<int64_t> flat = {store.flat_size()};
  std::vector<float> moment(static_cast<size_t>(store.flat_size()));
  for (const char* name : {kFirstMoment, kSecondMoment}) {
    reader.read(name, data::ElementType::kF32, flat, moment.data());
    check_sound(fault_in(moment, name), reader.path());
  }
}

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
    const ValueFault fault = first_fault({values.as<float>(), static_cast<size_t>(values.cols)}, name);
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
