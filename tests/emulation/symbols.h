// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

/// What the symbols of the program say.
namespace ventris::emulation {

/// The name of a kernel without namespaces, parameters and template arguments, so that it is the same with
/// all compilers; from the symbol table of the program, as kernels are known by their addresses alone. Its
/// address in hexadecimal where the program has no such symbol, as after strip.
std::string kernel_name(const void* kernel);

/// Where the calling thread has the thread_local variables of functions, and their sizes. Empty where the
/// program has no symbols.
std::vector<std::pair<char*, size_t>> thread_locals_of_functions();

}  // namespace ventris::emulation
