// SPDX-License-Identifier: Apache-2.0
#include "backend/device/instruction_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "backend/cpu/kernel_table.h"
#include "backend/device/error.h"

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
  // Each of these also checks that the system saves the registers.
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

std::mutex choice_mutex;
const KernelSet* chosen = nullptr;  // null: none
bool in_use = false;

std::vector<std::string> names(bool runs_here) {
  std::vector<std::string> found;
  for (const KernelSet& set : all_sets()) {
    if (set.runs_here || !runs_here) found.push_back(set.name);
  }
  return found;
}

const KernelSet& set_of(const std::string& name, const std::string& where) {
  const KernelSet* found = nullptr;
  for (const KernelSet& set : all_sets()) {
    if (set.name == name) found = &set;
  }
  if (found != nullptr && found->runs_here) return *found;
  fail(ExitCode::kUsage, "{}: {}; this program has kernels for {}; this processor supports {}", where,
       found == nullptr ? "there is no such instruction set"
                        : "this processor does not have these instructions",
       fmt::join(names(false), ", "), fmt::join(names(true), ", "));
}

std::string wanted_by_variable() {
  const char* variable = std::getenv("VENTRIS_ISA");
  return variable == nullptr || *variable == '\0' ? "auto" : variable;
}

const KernelSet& automatic_set() {
  const std::string wanted = wanted_by_variable();
  if (wanted != "auto") return set_of(wanted, "VENTRIS_ISA=" + wanted);
  const std::vector<KernelSet>& sets = all_sets();
  const auto greatest =
      std::find_if(sets.rbegin(), sets.rend(), [](const KernelSet& set) { return set.runs_here; });
  if (greatest == sets.rend()) {
    fail(ExitCode::kUnavailable,
         "this processor supports none of {}; build with -DVENTRIS_NATIVE=ON on this machine",
         fmt::join(names(false), ", "));
  }
  return *greatest;
}

bool vnni_of_processor(int vector_bytes) {
#if defined(__x86_64__)
  static const bool forbidden = [] {
    const char* variable = std::getenv("VENTRIS_VNNI");
    return variable != nullptr && std::string(variable) == "0";
  }();
  static const bool avx512 = !forbidden && __builtin_cpu_supports("avx512vnni") != 0;
  static const bool avx = [] {  // not every compiler has a name for it
    constexpr unsigned kLeaf = 7;
    constexpr unsigned kSubleaf = 1;
    constexpr unsigned kBit = 1U << 4;
    unsigned a = 0, b = 0, c = 0, d = 0;
    return !forbidden && __builtin_cpu_supports("avx2") != 0 &&
           __get_cpuid_count(kLeaf, kSubleaf, &a, &b, &c, &d) != 0 && (a & kBit) != 0;
  }();
  return vector_bytes == 64 ? avx512 : vector_bytes == 32 && avx;
#else
  return vector_bytes < 0;
#endif
}

std::atomic<bool> no_vnni = false;

const KernelSet& set_in_use() {
  static const KernelSet& set = []() -> const KernelSet& {
    const std::lock_guard lock(choice_mutex);
    if (chosen == nullptr) chosen = &automatic_set();
    in_use = true;
    return *chosen;
  }();
  return set;
}

}  // namespace

std::vector<std::string> built_instruction_sets() {
  return names(false);
}

std::vector<std::string> usable_instruction_sets() {
  return names(true);
}

const std::string& automatic_instruction_set() {
  return automatic_set().name;
}

std::string min_instruction_set(const std::vector<std::string>& names) {
  for (const KernelSet& set : all_sets()) {
    if (std::find(names.begin(), names.end(), set.name) != names.end()) return set.name;
  }
  fail(ExitCode::kInternal, "this program has none of the instruction sets {}", fmt::join(names, ", "));
}

void choose_instruction_set(const std::string& name) {
  const KernelSet& wanted = set_of(name, "instruction set " + name);
  const std::lock_guard lock(choice_mutex);
  VENTRIS_CHECK(!in_use || chosen == &wanted, "the kernels of {} are in use already, {} was chosen",
                chosen->name, name);
  chosen = &wanted;
}

const std::string& instruction_set() {
  return set_in_use().name;
}

const CpuKernels& cpu_kernels() {
  return *set_in_use().kernels;
}

bool processor_has_vnni(int vector_bytes) {
  return vnni_of_processor(vector_bytes) && !no_vnni.load(std::memory_order_relaxed);
}

void pretend_no_vnni(bool none) {
  no_vnni.store(none, std::memory_order_relaxed);
}

}  // namespace ventris
