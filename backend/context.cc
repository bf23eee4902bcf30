#include "backend/context.h"

#include "backend/error.h"
#include "backend/gemm_cache.h"

namespace ventris {
namespace {

const ContextOptions& checked(const ContextOptions& options) {
  if (options.device != Device::kCpu) {
    fail(ExitCode::kUnavailable,
         "device {} is not available: this build has no such device; use --device cpu",
         name_of(options.device));
  }
  if (options.threads < 1) {
    fail(ExitCode::kBadConfiguration, "a device needs at least 1 thread, but {} were asked for",
         options.threads);
  }
  return options;
}

}  // namespace

Context::Context(const ContextOptions& options)
    : options_(checked(options)),
      pool_(options.threads),
      scratch_(options.device, options.scratch_bytes),
      gemm_cache_(std::make_unique<GemmCache>(options.threads)) {}

Context::~Context() = default;

void Context::reserve_scratch(size_t bytes) {
  VENTRIS_CHECK(scratch_.used() == 0, "{} bytes of scratch are in use while it should grow", scratch_.used());
  if (bytes > scratch_.capacity()) scratch_ = Arena(options_.device, bytes);
}

}  // namespace ventris
