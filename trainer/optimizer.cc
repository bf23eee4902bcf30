#include "trainer/optimizer.h"

#include <cmath>

#include "backend/cast.h"
#include "backend/global_norm.h"

namespace ventris {
namespace {

constexpr size_t kAlignment = 128;  // of pieces of an arena

bool has_not_finite(Context& context, Tensor block) {
  if (block.contiguous()) {
    return first_not_finite(context, {block.data, 1, block.size(), block.size(), block.dtype}) >= 0;
  }
  for (int64_t row = 0; row < block.rows; ++row) {
    if (first_not_finite(context, block.row_range(row, 1)) >= 0) return true;
  }
  return false;
}

}  // namespace

Optimizer::Optimizer(Context& context, ParameterStore& store, const TrainOptions& options)
    : context_(context),
      store_(store),
      beta1_(options.beta1),
      beta2_(options.beta2),
      epsilon_(options.adam_epsilon),
      clip_norm_(options.clip_norm),
      memory_(context.device(),
              2 * (static_cast<size_t>(store.flat_size()) * size_of(store.values().dtype) + kAlignment) +
                  kAlignment,
              "Adam's moments"),
      m_(memory_.allocate(1, store.flat_size(), store.values().dtype)),
      v_(memory_.allocate(1, store.flat_size(), store.values().dtype)),
      scalars_(context, sizeof(AdamScalars)),
      sum_of_squares_(memory_.allocate_array<double>(1)) {}

void Optimizer::compute_norm() {
  sum_of_squares(context_, {.x = store_.gradients(), .result = sum_of_squares_});
}

double Optimizer::gradient_norm() {
  double squares = 0.0;
  copy_to_host(context_, &squares, sum_of_squares_, sizeof(squares));
  return std::sqrt(squares);
}

void Optimizer::step(int64_t update, double learning_rate, double gradient_norm) {
  const auto t = static_cast<double>(update);
  scalars_.wait_until_sent();
  *reinterpret_cast<AdamScalars*>(scalars_.host()) = {
      .learning_rate = static_cast<float>(learning_rate),
      .gradient_scale = clip_norm_ > 0.0 && gradient_norm > clip_norm_
                            ? static_cast<float>(clip_norm_ / gradient_norm)
                            : 1.0F,
      .bias_correction1 = static_cast<float>(1.0 - std::pow(static_cast<double>(beta1_), t)),
      .bias_correction2 = static_cast<float>(1.0 - std::pow(static_cast<double>(beta2_), t))};
  scalars_.send(sizeof(AdamScalars));
  adam(context_, {.value = store_.values(),
                  .gradient = store_.gradients(),
                  .m = m_,
                  .v = v_,
                  .compute = store_.compute_copy(),
                  .beta1 = beta1_,
                  .beta2 = beta2_,
                  .epsilon = epsilon_,
                  .scalars = reinterpret_cast<const AdamScalars*>(scalars_.device())});
}

void Optimizer::zero_gradients() {
  fill_zero(context_, store_.gradients());
}

std::string describe_not_finite(Context& context, ParameterStore& store) {
  const std::vector<LogicalParameter>& all = store.logical();
  for (const LogicalParameter& parameter : all) {
    if (has_not_finite(context, store.logical_value(parameter))) return "parameter " + parameter.name;
  }
  for (auto parameter = all.rbegin(); parameter != all.rend(); ++parameter) {
    if (has_not_finite(context, store.logical_gradient(*parameter)))
      return "the gradient of " + parameter->name;
  }
  return "the loss";
}

}  // namespace ventris
