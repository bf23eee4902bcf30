// SPDX-License-Identifier: Apache-2.0
#include "backend/device/shared_library.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <vector>

#include "backend/device/error.h"

namespace ventris {
namespace {

/// The folders in which the dynamic linker looks for what the program opens, in this order.
std::string searched_folders() {
  void* program = dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo size = {};
  if (program == nullptr || dlinfo(program, RTLD_DI_SERINFOSIZE, &size) != 0) return "unknown folders";
  std::vector<Dl_serinfo> buffer(size.dls_size / sizeof(Dl_serinfo) + 1);
  Dl_serinfo* const info = buffer.data();
  info[0] = size;
  if (dlinfo(program, RTLD_DI_SERINFO, info) != 0) return "unknown folders";
  std::string folders;
  for (unsigned i = 0; i < info->dls_cnt; ++i)
    folders += fmt::format("{}{}", i == 0 ? "" : ", ", info->dls_serpath[i].dls_name);
  return folders;
}

}  // namespace

SharedLibrary::SharedLibrary(const std::string& name, const std::string& remedy)
    : name_(name), remedy_(remedy), handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr) return;
  const std::string reason = dlerror();
  fail(ExitCode::kUnavailable, "cannot open {}: {}. It is looked for in {}, and in the linker's cache. {}",
       name, reason, searched_folders(), remedy);
}

void* SharedLibrary::address_of(const char* name) const {
  void* address = dlsym(handle_, name);
  if (address == nullptr)
    fail(ExitCode::kUnavailable, "{} has no function {}: it is too old. {}", name_, name, remedy_);
  return address;
}

}  // namespace ventris
