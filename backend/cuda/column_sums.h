// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ventris {

class Context;

void complete_column_sums_cuda(Context& context);

}  // namespace ventris
