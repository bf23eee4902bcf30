// SPDX-License-Identifier: Apache-2.0
#include "data/error.h"

namespace ventris::data {

void fail_formatted(ErrorKind kind, fmt::string_view format, fmt::format_args args) {
  throw DataError(kind, fmt::vformat(format, args));
}

}  // namespace ventris::data
