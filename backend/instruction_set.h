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

/// What counts without a choice: the set that the environment variable VENTRIS_ISA names, else (also if that
/// is "auto") the greatest that can run. Throws Error(kBadConfiguration) where VENTRIS_ISA names none that
/// can run.
const std::string& automatic_instruction_set();
/// Whether VENTRIS_ISA names one.
bool variable_names_instruction_set();
/// The least of some sets of this program; at least one.
std::string min_instruction_set(const std::vector<std::string>& names);

/// To be called before the first operation. Throws Error(kUsage) where there is none of that name or it
/// cannot run here.
void choose_instruction_set(const std::string& name);

/// The set in use: the chosen one, else the automatic one. From now on it stays that.
const std::string& instruction_set();

/// Whether the processor has VNNI, products of bytes that four at a time are added to 32 bits, for vectors of
/// so many bytes: AVX-VNNI for 32, AVX-512 VNNI for 64. Products of int8 take it with every set of that
/// width; they have the same bits without it. Never where the environment variable VENTRIS_VNNI is 0.
bool processor_has_vnni(int vector_bytes);
/// As if the processor had none, or no longer so: for tests.
void pretend_no_vnni(bool none);

}  // namespace ventris
