// SPDX-License-Identifier: Apache-2.0
#include "backend/device/shared_library.h"

#include <gtest/gtest.h>

#include "backend/device/error.h"

namespace ventris {
namespace {

constexpr const char* kMath = "libm.so.6";

TEST(SharedLibrary, FindsFunctions) {
  const SharedLibrary library(kMath, "");
  double (*cube_root)(double) = nullptr;
  library.find("cbrt", cube_root);
  EXPECT_DOUBLE_EQ(cube_root(27.0), 3.0);
}

/// The error of `call`, which must be one that says what is not available.
template <typename Call>
std::string unavailable(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUnavailable);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(SharedLibrary, AMissingOneIsNamedWithTheFoldersAndTheRemedy) {
  const std::string text = unavailable([] { SharedLibrary("libventris-none.so.1", "Install none"); });
  EXPECT_TRUE(text.starts_with(
      "cannot open libventris-none.so.1: libventris-none.so.1: cannot open shared object file"))
      << text;
  EXPECT_NE(text.find("It is looked for in "), std::string::npos) << text;
  EXPECT_NE(text.find("/lib"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(". Install none")) << text;
}

TEST(SharedLibrary, AMissingFunctionIsNamed) {
  const std::string text = unavailable([] {
    int (*none)() = nullptr;
    SharedLibrary(kMath, "Install a newer one").find("ventris_none", none);
  });
  EXPECT_EQ(text, "libm.so.6 has no function ventris_none: it is too old. Install a newer one");
}

}  // namespace
}  // namespace ventris
