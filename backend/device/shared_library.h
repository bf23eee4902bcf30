// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ventris {

/// A shared library that is opened when it is first needed and stays open. A program that is linked with the
/// library would not start without it, and would load it for commands that never call it.
class SharedLibrary {
 public:
  /// Opens `name`, as libnccl.so.2, in the folders of the dynamic linker. Throws Error(kUnavailable) with the
  /// name, the linker's reason, the folders and `remedy`, the sentence that says what to install.
  SharedLibrary(const std::string& name, const std::string& remedy);

  /// Sets `function` to the exported function `name`. Throws Error(kUnavailable) if the library has none.
  template <typename Function>
  void find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(address_of(name));
  }

 private:
  void* address_of(const char* name) const;

  std::string name_;
  std::string remedy_;
  void* handle_ = nullptr;
};

}  // namespace ventris
