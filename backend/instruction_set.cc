#include "backend/instruction_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <mutex>

#include "backend/cpu_kernels.h"
#include "backend/error.h"

extern "C" {
#ifdef VENTRIS_ONE_KERNEL_SET
extern const ventris::CpuKernels ventris_kernels;
#else
extern const ventris::CpuKernels ventris_kernels_avx2;
extern const ventris::CpuKernels ventris_kernels_avx512;
extern const ventris::CpuKernels ventris_kernels_avx512_bf16;
#endif
}

namespace ventris {
namespace {

struct KernelSet {
  std::string name;
  const CpuKernels* kernels;
  bool runs_here;
};

std::vector<KernelSet> look_at_processor() {
#ifdef VENTRIS_ONE_KERNEL_SET
  return {{VENTRIS_ONE_KERNEL_SET, &ventris_kernels, true}};
#else
  // Each of these also says whether the system saves the registers.
  const auto has = [](auto... features) { return (... && (features != 0)); };
  const bool avx2 = has(__builtin_cpu_supports("avx2"), __builtin_cpu_supports("fma"),
                        __builtin_cpu_supports("bmi"), __builtin_cpu_supports("bmi2"));
  const bool avx512 = avx2 && has(__builtin_cpu_supports("avx512f"), __builtin_cpu_supports("avx512bw"),
                                  __builtin_cpu_supports("avx512cd"), __builtin_cpu_supports("avx512dq"),
                                  __builtin_cpu_supports("avx512vl"));
  const bool bf16 = avx512 && has(__builtin_cpu_supports("avx512vnni"), __builtin_cpu_supports("avx512bf16"));
  return {{"avx2", &ventris_kernels_avx2, avx2},
          {"avx512", &ventris_kernels_avx512, avx512},
          {"avx512-bf16", &ventris_kernels_avx512_bf16, bf16}};
#endif
}

const std::vector<KernelSet>& all_sets() {
  static const std::vector<KernelSet> sets = look_at_processor();
  return sets;
}

// Of the choice, which counts until the first use.
std::mutex choice_mutex;
const KernelSet* chosen = nullptr;  // null: auto
const KernelSet* used = nullptr;    // null: not yet

std::vector<std::string> names(bool runs_here) {
  std::vector<std::string> found;
  for (const KernelSet& set : all_sets()) {
    if (set.runs_here || !runs_here) found.push_back(set.name);
  }
  return found;
}

const KernelSet& set_of(const std::string& name, const std::string& where, ExitCode code) {
  const KernelSet* found = nullptr;
  for (const KernelSet& set : all_sets()) {
    if (set.name == name) found = &set;
  }
  if (found != nullptr && found->runs_here) return *found;
  fail(code,
       "{}: {}; this program has kernels for {}, of which this processor runs {}. 'auto' takes the best",
       where,
       found == nullptr ? "there is no such set of instructions"
                        : "this processor does not have these instructions",
       fmt::join(names(false), ", "), fmt::join(names(true), ", "));
}

const KernelSet& decide() {
  const std::lock_guard lock(choice_mutex);
  if (used != nullptr) return *used;
  const char* variable = std::getenv("VENTRIS_ISA");
  const std::string wanted = variable == nullptr ? "" : variable;
  if (chosen != nullptr) {
    used = chosen;
  } else if (!wanted.empty() && wanted != "auto") {
    used = &set_of(wanted, "VENTRIS_ISA=" + wanted, ExitCode::kBadConfiguration);
  } else {
    for (const KernelSet& set : all_sets()) {
      if (set.runs_here) used = &set;
    }
  }
  if (used == nullptr) {
    fail(ExitCode::kUnavailable,
         "this processor has the instructions of none of {}; build with -DVENTRIS_NATIVE=ON on this machine",
         fmt::join(names(false), ", "));
  }
  return *used;
}

const KernelSet& set_in_use() {
  static const KernelSet& set = decide();
  return set;
}

}  // namespace

std::vector<std::string> built_instruction_sets() {
  return names(false);
}

std::vector<std::string> usable_instruction_sets() {
  return names(true);
}

void choose_instruction_set(const std::string& name) {
  const KernelSet* wanted = name == "auto" ? nullptr : &set_of(name, "--isa " + name, ExitCode::kUsage);
  const std::lock_guard lock(choice_mutex);
  VENTRIS_CHECK(used == nullptr || wanted == nullptr || used == wanted,
                "the kernels of {} are in use already, {} was chosen", used->name, name);
  chosen = wanted;
}

const std::string& instruction_set() {
  return set_in_use().name;
}

const CpuKernels& cpu_kernels() {
  return *set_in_use().kernels;
}

}  // namespace ventris
