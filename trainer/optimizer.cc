#include "trainer/optimizer.h"

#include "backend/cast.h"
#include "backend/global_norm.h"
#include "backend/moving_average.h"
#include "backend/profile.h"

namespace ventris {
namespace {

constexpr size_t kAlignment = 128;  // of pieces of an arena
constexpr size_t kSmallPieces = 5;  // in addition to the moments

}  // namespace

size_t Optimizer::planned_bytes(int64_t flat_size, DType master, const TrainOptions& options) {
  return (options.ema > 0.0 ? 3 : 2) * (static_cast<size_t>(flat_size) * size_of(master) + kAlignment) +
         kSmallPieces * kAlignment;
}

Optimizer::Optimizer(Context& context, ParameterStore& store, const TrainOptions& options)
    : context_(context),
      store_(store),
      beta1_(options.beta1),
      beta2_(options.beta2),
      epsilon_(options.adam_epsilon),
      clip_norm_(options.clip_norm),
      ema_(options.ema),
      memory_(context.device(), planned_bytes(store.flat_size(), store.values().dtype, options),
              "Adam's moments and averages"),
      m_(memory_.allocate(1, store.flat_size(), store.values().dtype)),
      v_(memory_.allocate(1, store.flat_size(), store.values().dtype)),
      average_(ema_ > 0.0 ? memory_.allocate(1, store.flat_size(), store.values().dtype) : Tensor{}),
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
  if (average_) cast(context_, {.source = store_.values(), .destination = average_});
}

void Optimizer::set_learning_rate(double learning_rate) {
  HostBuffer& buffer = learning_rates_[turn_++ % learning_rates_.size()];
  buffer.wait_until_done();
  *reinterpret_cast<float*>(buffer.data()) = static_cast<float>(learning_rate);
  buffer.send(learning_rate_, sizeof(float));
}

void Optimizer::update(Tensor loss_sums) {
  {
    const ProfileRange range(context_, "gradient norm");
    sum_of_squares(context_, {.x = store_.gradients(), .result = sum_of_squares_});
    plan_update(context_, {.loss_sums = loss_sums.as<double>(),
                           .sum_of_squares = sum_of_squares_,
                           .learning_rate = learning_rate_,
                           .clip_norm = clip_norm_,
                           .beta1 = beta1_,
                           .beta2 = beta2_,
                           .updates = updates_,
                           .scalars = scalars_,
                           .outcome = &report_->outcome});
    find_not_finite(context_, {.values = store_.values(),
                               .gradients = store_.gradients(),
                               .wanted = &report_->outcome.skipped,
                               .places = &report_->not_finite});
  }
  {
    const ProfileRange range(context_, "Adam");
    adam(context_, {.value = store_.values(),
                    .gradient = store_.gradients(),
                    .m = m_,
                    .v = v_,
                    .compute = store_.compute_copy(),
                    .beta1 = beta1_,
                    .beta2 = beta2_,
                    .epsilon = epsilon_,
                    .scalars = scalars_});
  }
  if (average_) {
    const ProfileRange range(context_, "moving average");
    moving_average(
        context_,
        {.value = store_.values(), .average = average_, .decay = ema_, .outcome = &report_->outcome});
  }
  const ProfileRange range(context_, "zeroing gradients");
  fill_zero(context_, store_.gradients());
  fill_zero(context_, loss_sums);
}

std::string describe_not_finite(const ParameterStore& store, const NotFinitePlaces& places) {
  if (places.first_value >= 0) return "parameter " + store.logical_at(places.first_value).name;
  if (places.last_gradient >= 0) return "the gradient of " + store.logical_at(places.last_gradient).name;
  return "the loss";
}

}  // namespace ventris
