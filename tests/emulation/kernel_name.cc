#include "tests/emulation/kernel_name.h"

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

/// What addresses in memory are past those in the file.
uintptr_t load_offset() {
  uintptr_t offset = 0;
  const auto take_first = [](dl_phdr_info* program, size_t, void* to) {
    *static_cast<uintptr_t*>(to) = program->dlpi_addr;
    return 1;
  };
  dl_iterate_phdr(take_first, &offset);
  return offset;
}

/// As the linker knows the function; empty where it has no symbol.
std::string_view symbol_of(const void* function) {
  const char* file = program_file();
  if (file == nullptr) return {};
  const uintptr_t wanted = reinterpret_cast<uintptr_t>(function) - load_offset();
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(file);
  const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(file + header->e_shoff);
  for (int s = 0; s < header->e_shnum; ++s) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const auto* symbols = reinterpret_cast<const ElfW(Sym)*>(file + sections[s].sh_offset);
    const char* names = file + sections[sections[s].sh_link].sh_offset;
    for (size_t i = 0; i < sections[s].sh_size / sizeof(*symbols); ++i) {
      // ELF64_ST_TYPE is that of 32 bits, too.
      if (symbols[i].st_value == wanted && ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC)
        return names + symbols[i].st_name;
    }
  }
  return {};
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

}  // namespace ventris::emulation
