// SPDX-License-Identifier: Apache-2.0
#include "trainer/optimizer.h"

#include <algorithm>
#include <cstring>

#include "backend/device/profile.h"
#include "backend/ops/cast.h"
#include "backend/ops/global_norm.h"
#include "backend/ops/moving_average.h"
#include "backend/ops/weight_decay.h"
#include "comm/communicator.h"
#include "trainer/checkpoint/replica_check.h"

namespace ventris {
namespace {

constexpr size_t kAlignment = 128;  // of pieces of an arena
constexpr size_t kSmallPieces = 5;  // in addition to the moments

/// Appends [begin, end), or makes the last range longer if it ends there.
void append_range(std::vector<FlatRange>& ranges, int64_t begin, int64_t end) {
  if (begin >= end) return;
  if (!ranges.empty() && ranges.back().begin + ranges.back().count == begin) {
    ranges.back().count += end - begin;
  } else {
    ranges.push_back({begin, end - begin});
  }
}

/// The elements of trained_values() that --weight-decay moves and that a shard updates, in order: those of
/// matrices (embeddings and learned positions among them), but of none that is frozen. The store must be
/// allocated with gradients.
std::vector<FlatRange> decayed_ranges(const ParameterStore& store, const OptimizerShard& shard) {
  std::vector<FlatRange> all;
  ParameterId last = -1;
  for (const LogicalParameter& parameter : store.logical()) {
    const ParameterId id = parameter.tensor;
    const Tensor gradient = store.gradient(id);
    if (id == last || !gradient || parameter.vector) continue;
    last = id;  // the parameters of a fused tensor follow one another
    for (int64_t row = 0; row < gradient.rows; ++row) {
      const int64_t first = store.gradient_begin(id) + row * gradient.stride;
      for (const ParameterStore::Columns& columns : store.trained_columns(id))
        append_range(all, first + columns.begin, first + columns.begin + columns.count);
    }
  }
  std::sort(all.begin(), all.end(), [](const FlatRange& a, const FlatRange& b) { return a.begin < b.begin; });
  std::vector<FlatRange> ours;
  for (const OptimizerShard::Range& part : shard.ranges()) {
    for (const FlatRange& range : all) {
      append_range(ours, std::max(range.begin, part.elements.begin),
                   std::min(range.begin + range.count, part.elements.end));
    }
  }
  return ours;
}

/// Gives every rank its part of a range of the state: `to`, from `all` on rank 0.
void distribute_part(Context& context, Communicator& communicator, const Optimizer& optimizer,
                     const Tensor& all, const Tensor& to) {
  if (optimizer.shard().is_part()) {
    optimizer.shard().distribute(communicator, all, to);
  } else {
    copy_from_rank(context, communicator, 0, to);
  }
}

}  // namespace

size_t Optimizer::planned_bytes(int64_t trained_size, int64_t share, DType master,
                                const TrainOptions& options) {
  const size_t squares = static_cast<size_t>(squares_chunks(trained_size)) * sizeof(double);
  return (options.ema > 0.0 ? 3 : 2) * (static_cast<size_t>(share) * size_of(master) + kAlignment) +
         (options.shard_optimizer ? squares : 0) + (kSmallPieces + 1) * kAlignment;
}

Optimizer::Optimizer(Context& context, ParameterStore& store, const TrainOptions& options, int rank,
                     int ranks)
    : context_(context),
      store_(store),
      beta1_(options.beta1),
      beta2_(options.beta2),
      epsilon_(options.adam_epsilon),
      clip_norm_(options.clip_norm),
      weight_decay_(options.weight_decay),
      ema_(options.ema),
      shard_(context, store, options.shard_optimizer ? rank : 0, options.shard_optimizer ? ranks : 1),
      decayed_(weight_decay_ > 0.0 ? decayed_ranges(store, shard_) : std::vector<FlatRange>()),
      memory_(context.device(),
              planned_bytes(store.trained_size(), shard_.size(), store.values().dtype, options),
              "Adam's moments and averages"),
      m_(memory_.allocate(1, shard_.size(), store.values().dtype)),
      v_(memory_.allocate(1, shard_.size(), store.values().dtype)),
      average_(ema_ > 0.0 ? memory_.allocate(1, shard_.size(), store.values().dtype) : Tensor{}),
      partial_squares_(shard_.is_part() ? memory_.allocate(1, shard_.partial_sums(), DType::kF64) : Tensor{}),
      sum_of_squares_(memory_.allocate_array<double>(1)),
      updates_(memory_.allocate_array<int64_t>(1)),
      learning_rate_(memory_.allocate_array<float>(1)),
      scalars_(memory_.allocate_array<AdamScalars>(1)),
      report_(memory_.allocate_array<StepReport>(1)),
      learning_rates_{HostBuffer(context, sizeof(float)), HostBuffer(context, sizeof(float))} {}

void Optimizer::set_updates(int64_t updates) {
  copy_to_device(context_, updates_, &updates, sizeof(updates));
}

void Optimizer::start_average() {
  if (!average_) return;
  for (const auto& [elements, packed] : shard_.ranges()) {
    cast(context_, {.source = store_.trained_values().col_range(elements.begin, elements.size()),
                    .destination = average_.col_range(packed, elements.size())});
  }
}

void Optimizer::exchange_with_average() {
  for (const auto& [elements, packed] : shard_.ranges()) {
    exchange(context_, {.a = store_.trained_values().col_range(elements.begin, elements.size()),
                        .b = average_.col_range(packed, elements.size())});
  }
}

void Optimizer::set_learning_rate(double learning_rate) {
  HostBuffer& buffer = learning_rates_[turn_++ % learning_rates_.size()];
  buffer.wait_until_done();
  *reinterpret_cast<float*>(buffer.data()) = static_cast<float>(learning_rate);
  buffer.send(learning_rate_, sizeof(float));
}

void Optimizer::update(Tensor loss_sums, Communicator& sums) {
  {
    const ProfileRange range(context_, "gradient norm");
    if (shard_.is_part()) {
      shard_.sum_of_squares(sums, partial_squares_, sum_of_squares_);
    } else {
      sum_of_squares(context_, {.x = store_.gradients(), .result = sum_of_squares_});
    }
    plan_update(context_, {.loss_sums = loss_sums.as<double>(),
                           .sum_of_squares = sum_of_squares_,
                           .learning_rate = learning_rate_,
                           .clip_norm = clip_norm_,
                           .beta1 = beta1_,
                           .beta2 = beta2_,
                           .updates = updates_,
                           .scalars = scalars_,
                           .outcome = &report_->outcome});
    find_not_finite(context_, {.values = store_.trained_values(),
                               .gradients = store_.gradients(),
                               .wanted = &report_->outcome.skipped,
                               .places = &report_->not_finite});
  }
  {
    const ProfileRange range(context_, "Adam");
    if (!decayed_.empty()) {
      weight_decay(context_, {.values = store_.trained_values(),
                              .ranges = decayed_,
                              .decay = weight_decay_,
                              .scalars = scalars_});
    }
    for (const auto& [elements, packed] : shard_.ranges()) {
      const auto part = [begin = elements.begin, count = elements.size()](const Tensor& flat) {
        return flat ? flat.col_range(begin, count) : Tensor{};
      };
      adam(context_, {.value = part(store_.trained_values()),
                      .gradient = part(store_.gradients()),
                      .m = m_.col_range(packed, elements.size()),
                      .v = v_.col_range(packed, elements.size()),
                      .compute = part(store_.trained_compute_copy()),
                      .beta1 = beta1_,
                      .beta2 = beta2_,
                      .epsilon = epsilon_,
                      .scalars = scalars_});
    }
  }
  if (average_) {
    const ProfileRange range(context_, "moving average");
    for (const auto& [elements, packed] : shard_.ranges()) {
      moving_average(context_, {.value = store_.trained_values().col_range(elements.begin, elements.size()),
                                .average = average_.col_range(packed, elements.size()),
                                .decay = ema_,
                                .outcome = &report_->outcome});
    }
  }
  if (shard_.is_part()) {
    const ProfileRange range(context_, "sharing parameters");
    shard_.share_parameters(sums);
  }
  const ProfileRange range(context_, "zeroing gradients");
  fill_zero(context_, store_.gradients());
  fill_zero(context_, loss_sums);
}

WholeOptimizerState::WholeOptimizerState(const Communicator& communicator, const ParameterStore& store,
                                         Optimizer& optimizer) {
  if (!optimizer.shard().is_part()) {
    state_ = optimizer.state();
    return;
  }
  if (communicator.rank() != 0) return;
  const auto flat = [&](std::vector<float>& memory) {
    memory.resize(static_cast<size_t>(store.trained_size()));
    return Tensor{memory.data(), 1, store.trained_size(), store.trained_size(), DType::kF32};
  };
  state_ = {.m = flat(m_), .v = flat(v_), .on_host = true};
  if (optimizer.has_average()) state_.average = flat(average_);
}

void WholeOptimizerState::distribute_moments(Context& context, Communicator& communicator,
                                             Optimizer& optimizer) const {
  distribute_part(context, communicator, optimizer, state_.m, optimizer.state().m);
  distribute_part(context, communicator, optimizer, state_.v, optimizer.state().v);
}

void WholeOptimizerState::distribute_average(Context& context, Communicator& communicator,
                                             Optimizer& optimizer) const {
  if (!optimizer.has_average()) return;
  distribute_part(context, communicator, optimizer, state_.average, optimizer.state().average);
}

NotFinitePlaces places_on_all_ranks(Communicator& control, NotFinitePlaces places) {
  std::string mine(sizeof(places), '\0');
  std::memcpy(mine.data(), &places, sizeof(places));
  for (const std::string& bytes : control.all_gather(mine)) {
    NotFinitePlaces other{};
    std::memcpy(&other, bytes.data(), sizeof(other));
    if (other.first_value >= 0 && (places.first_value < 0 || other.first_value < places.first_value))
      places.first_value = other.first_value;
    places.last_gradient = std::max(places.last_gradient, other.last_gradient);
  }
  return places;
}

std::string describe_not_finite(const ParameterStore& store, const NotFinitePlaces& places) {
  const auto name = [&](int64_t trained) { return store.logical_at(store.frozen_size() + trained).name; };
  if (places.first_value >= 0) return "parameter " + name(places.first_value);
  if (places.last_gradient >= 0) return "the gradient of " + name(places.last_gradient);
  return "the loss";
}

}  // namespace ventris
