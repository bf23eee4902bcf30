// SPDX-License-Identifier: Apache-2.0
#include "trainer/train_profile.h"

#include <algorithm>
#include <chrono>

#include "backend/device/arena.h"
#include "backend/device/error.h"
#include "backend/device/profile.h"
#include "backend/device/transfer.h"
#include "backend/ops/gemm.h"
#include "model/flop_count.h"
#include "model/transformer.h"
#include "trainer/text.h"

namespace ventris {
namespace {

constexpr int64_t kSmallestProduct = 256;
constexpr int64_t kLargestProduct = 8192;
constexpr double kLongEnough = 5e-3;  // seconds of a product beyond which larger ones are not faster
constexpr double kRoundSeconds = 0.1;
constexpr int kRounds = 3;

/// Numbers similar to those of a model: a device may be faster on zeros.
void fill(Context& context, Tensor tensor) {
  const auto count = static_cast<size_t>(tensor.size());
  std::vector<char> bytes(count * size_of(tensor.dtype));
  uint32_t state = 1;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    const float value = static_cast<float>(state >> 8) * 0x1p-23F - 1.0F;
    if (tensor.dtype == DType::kBF16) {
      reinterpret_cast<BF16*>(bytes.data())[i] = BF16(value);
    } else {
      reinterpret_cast<float*>(bytes.data())[i] = value;
    }
  }
  copy_to_device(context, tensor.data, bytes.data(), bytes.size());
}

/// Seconds of the product of two matrices of `size` rows.
class Product {
 public:
  Product(Context& context, int64_t size, DType dtype)
      : context_(context),
        memory_(context.device(), 3 * (static_cast<size_t>(size * size) * size_of(dtype) + 128),
                "the product that a profile compares with"),
        a_(memory_.allocate(size, size, dtype)),
        b_(memory_.allocate(size, size, dtype)),
        c_(memory_.allocate(size, size, dtype)) {
    fill(context_, a_);
    fill(context_, b_);
    seconds(1);  // chooses algorithms
  }

  double seconds(int count) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) gemm(context_, {.a = a_, .b = b_, .c = c_});
    synchronize(context_);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / count;
  }

 private:
  Context& context_;
  Arena memory_;
  Tensor a_, b_, c_;
};

double flops_of_product(int64_t size) {
  return 2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
}

/// Increases the product until the device reaches its full speed.
void measure_product(Context& context, TrainProfile& profile) {
  synchronize(context);
  for (int64_t size = kSmallestProduct; size <= kLargestProduct; size *= 2) {
    try {
      Product product(context, size, dtype_of(profile.product_precision));
      const double once = product.seconds(1);
      double best = once;
      if (once >= kLongEnough || size == kLargestProduct) {
        const int count = std::max(1, static_cast<int>(kRoundSeconds / once));
        for (int round = 0; round < kRounds; ++round) best = std::min(best, product.seconds(count));
      }
      profile.product_size = size;
      profile.product_flops_per_second = flops_of_product(size) / best;
      if (once >= kLongEnough) return;
    } catch (const Error& error) {
      if (error.code() != ExitCode::kUnavailable) throw;
      return;  // no memory left beside the model: the previous one is used
    }
  }
}

/// Forward is a third of training.
double flops_of_phase(const std::string& name, const FlopCount& flops) {
  const double encoder = (flops.encoder + flops.encoder_attention) / 3.0;
  const double decoder = (flops.decoder + flops.decoder_attention) / 3.0;
  if (name == kEncoderForward) return encoder;
  if (name == kDecoderForward) return decoder;
  if (name == kOutputAndLoss) return flops.output_projection;
  if (name == kDecoderBackward) return 2.0 * decoder;
  if (name == kEncoderBackward) return 2.0 * encoder;
  return 0.0;
}

}  // namespace

std::string flop_rate_text(double flops_per_second) {
  return flops_per_second < 1e12 ? fmt::format("{:.1f} GFLOP/s", 1e-9 * flops_per_second)
                                 : fmt::format("{:.1f} TFLOP/s", 1e-12 * flops_per_second);
}

double TrainProfile::other_seconds() const {
  double seconds = step_seconds;
  for (const Row& row : phases) seconds -= row.seconds;
  return std::max(0.0, seconds);
}

TrainProfile train_profile(Context& context, const FlopCount& flops, Precision precision) {
  TrainProfile result;
  Profile& profile = context.profile();
  result.steps = profile.steps();
  if (result.steps == 0) return result;
  const auto steps = static_cast<double>(result.steps);
  for (const Profile::Phase& phase : profile.phases()) {
    result.phases.push_back({.name = phase.name,
                             .seconds = phase.seconds / steps,
                             .flops = flops_of_phase(phase.name, flops) / steps});
  }
  result.step_seconds = profile.step_seconds() / steps;
  result.step_flops = flops.total() / steps;
  result.product_precision = precision;
  measure_product(context, result);
  return result;
}

std::string profile_table(const TrainProfile& profile) {
  if (profile.steps == 0) return "The profile is empty: there were too few steps.";
  std::string text =
      fmt::format("Profile of {} of the first rank:\n{:<28}{:>11}{:>8}  {:>16}\n",
                  counted(profile.steps, "step"), "phase", "ms per step", "share", "of the model");
  const auto line = [&](const std::string& name, double seconds, double flops) {
    const std::string rate = flops > 0.0 && seconds > 0.0 ? flop_rate_text(flops / seconds) : "";
    const double share = profile.step_seconds > 0.0 ? 100.0 * seconds / profile.step_seconds : 0.0;
    const std::string head = fmt::format("{:<28}{:>11.3f}{:>7.1f}%", name, 1e3 * seconds, share);
    text += rate.empty() ? head + "\n" : fmt::format("{}  {:>16}\n", head, rate);
  };
  for (const TrainProfile::Row& row : profile.phases) line(row.name, row.seconds, row.flops);
  line("other", profile.other_seconds(), 0.0);
  line("step", profile.step_seconds, profile.step_flops);
  if (profile.product_size == 0) return text + "There is not enough memory for a product to compare with.";
  return text + fmt::format("MFU {:.1f}%, of a product of two {} x {} matrices in {} at {}",
                            100.0 * profile.mfu(), profile.product_size, profile.product_size,
                            name_of(profile.product_precision),
                            flop_rate_text(profile.product_flops_per_second));
}

}  // namespace ventris
