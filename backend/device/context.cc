// SPDX-License-Identifier: Apache-2.0
#include "backend/device/context.h"

#include <string>
#include <utility>

#include "backend/cpu/gemm_onednn.h"
#include "backend/device/device.h"
#include "backend/device/device_cuda.h"
#include "backend/device/error.h"
#include "backend/device/has_cuda.h"
#include "backend/device/profile.h"

namespace ventris {
namespace {

constexpr const char* kScratchPurpose = "intermediate results of operations";

const ContextOptions& checked(const ContextOptions& options) {
  if (options.device == Device::kCuda) {
    const std::string reason = cuda_unavailable_reason(options.device_index);
    if (!reason.empty())
      fail(ExitCode::kUnavailable, "device cuda is not available: {}; or use --device cpu", reason);
  }
  if (options.threads < 1) {
    fail(ExitCode::kBadConfiguration, "a device needs at least 1 thread, not {}", options.threads);
  }
  return options;
}

CudaDevicePtr cuda_device_of(const ContextOptions& options) {
  if constexpr (kHasCuda) {
    if (options.device == Device::kCuda) return make_cuda_device(options.device_index);
  }
  return {nullptr, [](CudaDevice*) {}};
}

}  // namespace

Context::Context(const ContextOptions& options)
    : options_(checked(options)),
      cuda_(cuda_device_of(options)),
      pool_(options.threads),
      scratch_(options.device, options.scratch_bytes, kScratchPurpose),
      gemm_cache_(options.device == Device::kCpu ? std::make_unique<GemmCache>(options.threads) : nullptr),
      profile_(std::make_unique<Profile>(cuda_.get())) {}

Context::~Context() = default;

void Context::reserve_scratch(size_t bytes) {
  VENTRIS_CHECK(scratch_.used() == 0, "{} bytes of scratch are in use while it should grow", scratch_.used());
  if (bytes <= scratch_.capacity()) return;
  if constexpr (kHasCuda) {
    VENTRIS_CHECK(device() != Device::kCuda || !capturing(*cuda_),
                  "{} bytes of scratch are needed, {} are available, and memory cannot grow while a graph "
                  "is captured; run the same shapes once before the capture, or raise scratch_bytes",
                  bytes, scratch_.capacity());
  }
  Arena larger(options_.device, bytes, kScratchPurpose);
  if (device() == Device::kCuda) outgrown_.push_back(std::move(scratch_));
  scratch_ = std::move(larger);
}

}  // namespace ventris
