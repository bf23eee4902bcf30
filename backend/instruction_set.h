#pragma once

#include <string>
#include <vector>

/// The CPU's kernels are compiled for one set of instructions or for several (cmake/instruction_sets.cmake):
/// "avx2", "avx512" (those of x86-64-v4) and "avx512-bf16" (VNNI and products of bf16 besides); or "neon"
/// alone; or "native" alone, those of the machine that compiled. A process uses one of them, from its first
/// operation on.
namespace ventris {

/// Those that the program has, from the least to the greatest.
std::vector<std::string> built_instruction_sets();
/// Those of them that this processor, and the system with its registers, can run.
std::vector<std::string> usable_instruction_sets();

/// Takes the set of that name, or with "auto" that of the environment variable VENTRIS_ISA, else the greatest
/// that can run. To be called before the first operation. Throws Error(kUsage) where there is none of that
/// name or it cannot run here.
void choose_instruction_set(const std::string& name);

/// The set in use. As nothing can be chosen afterwards, not to be asked for its name before
/// choose_instruction_set(). Throws Error(kBadConfiguration) where VENTRIS_ISA counts and names none that can
/// run.
const std::string& instruction_set();

}  // namespace ventris
