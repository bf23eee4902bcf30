// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// The CPU kernels are compiled for one or several instruction sets (cmake/instruction_sets.cmake): "avx2",
/// "avx512" (that of x86-64-v4) and "avx512-bf16" (also VNNI and bf16 products); or only "neon"; or only
/// "native", that of the building machine. A process uses one of them, from its first operation on.
namespace ventris {

/// The sets that the program has, from smallest to largest.
std::vector<std::string> built_instruction_sets();
/// The sets that this processor and operating system can run.
std::vector<std::string> usable_instruction_sets();

/// The default: the set that the environment variable VENTRIS_ISA names; if unset or "auto", the largest that
/// can run. Throws Error(kUsage) if VENTRIS_ISA names none that can run.
const std::string& automatic_instruction_set();
/// The smallest of the given sets of this program; at least one.
std::string min_instruction_set(const std::vector<std::string>& names);

/// Must be called before the first operation. Throws Error(kUsage) if no set has that name or it cannot run
/// here.
void choose_instruction_set(const std::string& name);

/// The set in use: the chosen one, or the default. Fixed from the first call on.
const std::string& instruction_set();

/// Whether the processor has VNNI, which adds four products of bytes to 32 bits, for vectors of this many
/// bytes: AVX-VNNI for 32, AVX-512 VNNI for 64. Products of int8 use it with every set of that width; they
/// have the same bits without it. False if the environment variable VENTRIS_VNNI is 0.
bool processor_has_vnni(int vector_bytes);
/// Disables VNNI, or enables it again: for tests.
void pretend_no_vnni(bool none);

}  // namespace ventris
