#pragma once

#include "backend/add.h"

namespace ventris {

void add_cuda(Context& context, const AddArgs& args);

}  // namespace ventris
