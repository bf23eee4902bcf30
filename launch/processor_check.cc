// SPDX-License-Identifier: Apache-2.0
#include <cpuid.h>
#include <unistd.h>

// The rest of the program is compiled for x86-64-v3 or higher; on an older processor this file reports that
// before any of it runs, instead of a crash by an illegal instruction. Compiled for every x86-64, so it
// includes nothing for which the linker could use a copy compiled for a newer processor.

namespace {

constexpr int kUnavailable = 69;  // ExitCode::kUnavailable

struct Registers {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
};

Registers cpuid(unsigned leaf) {
  Registers found;
  __get_cpuid_count(leaf, 0, &found.eax, &found.ebx, &found.ecx, &found.edx);
  return found;
}

// Whether the system saves the registers of AVX.
bool saves_registers(unsigned features) {
  if ((features & bit_OSXSAVE) == 0) return false;
  unsigned low = 0;
  unsigned high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & 6U) == 6U;
}

class Message {
 public:
  void add(const char* text) {
    for (; *text != 0 && used_ < sizeof(text_); ++text) text_[used_++] = *text;
  }
  void lack(const char* name) {
    add(lacks_ ? ", " : " ");
    add(name);
    lacks_ = true;
  }
  bool lacks() const { return lacks_; }
  void tell() const { [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text_, used_); }

 private:
  char text_[512];
  unsigned used_ = 0;
  bool lacks_ = false;
};

// Before the constructors of static objects.
__attribute__((constructor(101))) void check_processor() {
  const Registers basic = cpuid(1);
  const Registers more = cpuid(7);
  const Registers extended = cpuid(0x80000001U);
  Message message;
  message.add("ventris: error: this processor, or the system's support for its registers, lacks");
  const auto need = [&message](bool there, const char* name) {
    if (!there) message.lack(name);
  };
  const bool saved = saves_registers(basic.ecx);
  need(saved && (basic.ecx & bit_AVX) != 0, "AVX");
  need(saved && (more.ebx & bit_AVX2) != 0, "AVX2");
  need(saved && (basic.ecx & bit_FMA) != 0, "FMA");
  need(saved && (basic.ecx & bit_F16C) != 0, "F16C");
  need((more.ebx & bit_BMI) != 0, "BMI1");
  need((more.ebx & bit_BMI2) != 0, "BMI2");
  need((basic.ecx & bit_MOVBE) != 0, "MOVBE");
  need((extended.ecx & bit_LZCNT) != 0, "LZCNT");
  if (!message.lacks()) return;
  message.add(
      "; this program is built for processors of x86-64-v3. "
      "Build it on this machine with -DVENTRIS_NATIVE=ON\n");
  message.tell();
  ::_exit(kUnavailable);
}

}  // namespace
