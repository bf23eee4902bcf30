// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace ventris::emulation {
namespace {

/// The file of the program, which stays mapped, or null.
const char* program_file() {
  static const char* const bytes = []() -> const char* {
    const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat found {};
    if (file < 0 || fstat(file, &found) != 0) return nullptr;
    void* mapped = mmap(nullptr, static_cast<size_t>(found.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    return mapped == MAP_FAILED ? nullptr : static_cast<const char*>(mapped);
  }();
  return bytes;
}

/// Where the program lies in memory.
dl_phdr_info program_in_memory() {
  dl_phdr_info found = {};
  const auto take_first = [](dl_phdr_info* program, size_t, void* to) {
    *static_cast<dl_phdr_info*>(to) = *program;
    return 1;
  };
  dl_iterate_phdr(take_first, &found);
  return found;
}

/// Calls body(symbol, name) for the symbols of the program.
template <typename Body>
void for_each_symbol(const Body& body) {
  const char* file = program_file();
  if (file == nullptr) return;
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(file);
  const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(file + header->e_shoff);
  for (int s = 0; s < header->e_shnum; ++s) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const auto* symbols = reinterpret_cast<const ElfW(Sym)*>(file + sections[s].sh_offset);
    const char* names = file + sections[sections[s].sh_link].sh_offset;
    for (size_t i = 0; i < sections[s].sh_size / sizeof(*symbols); ++i)
      body(symbols[i], std::string_view(names + symbols[i].st_name));
  }
}
// ELF64_ST_TYPE is that of 32 bits, too.
int type_of(const ElfW(Sym) & symbol) {
  return ELF64_ST_TYPE(symbol.st_info);
}

/// As the linker knows the function; empty where it has no symbol.
std::string_view symbol_of(const void* function) {
  const uintptr_t wanted = reinterpret_cast<uintptr_t>(function) - program_in_memory().dlpi_addr;
  std::string_view found;
  for_each_symbol([&](const ElfW(Sym) & symbol, std::string_view name) {
    if (symbol.st_value == wanted && type_of(symbol) == STT_FUNC) found = name;
  });
  return found;
}

/// The last of the names in a symbol of the Itanium C++ ABI, each after its length: add_row in
/// _ZN7ventris12_GLOBAL__N_17add_rowIfLb1EEEv...
std::string_view last_name(std::string_view symbol) {
  std::string_view rest = symbol.substr(symbol.starts_with("_ZN") ? 3 : 2);
  std::string_view name;
  for (;;) {
    if (rest.starts_with('L')) rest.remove_prefix(1);  // internal linkage
    size_t length = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    if (error != std::errc()) return name;
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    name = rest.substr(0, length);
    rest.remove_prefix(name.size());
  }
}

}  // namespace

std::string kernel_name(const void* kernel) {
  const std::string_view symbol = symbol_of(kernel);
  const std::string_view name = symbol.starts_with("_Z") ? last_name(symbol) : symbol;
  return name.empty() ? fmt::format("{}", kernel) : std::string(name);
}

std::vector<std::pair<char*, size_t>> thread_locals_of_functions() {
  static const std::vector<std::pair<size_t, size_t>> places = [] {
    std::vector<std::pair<size_t, size_t>> found;
    for_each_symbol([&](const ElfW(Sym) & symbol, std::string_view name) {
      if (type_of(symbol) == STT_TLS && name.starts_with("_ZZ"))
        found.emplace_back(symbol.st_value, symbol.st_size);
    });
    return found;
  }();
  auto* memory = static_cast<char*>(program_in_memory().dlpi_tls_data);
  std::vector<std::pair<char*, size_t>> ranges;
  for (const auto& [offset, bytes] : places) ranges.emplace_back(memory + offset, bytes);
  return ranges;
}

}  // namespace ventris::emulation
