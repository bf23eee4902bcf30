#pragma once

#include <string>

namespace ventris::emulation {

/// The name of a kernel without namespaces, parameters and template arguments, so that it is the same with
/// all compilers; from the symbol table of the program, as kernels are known by their addresses alone. Its
/// address in hexadecimal where the program has no such symbol, as after strip.
std::string kernel_name(const void* kernel);

}  // namespace ventris::emulation
