#pragma once

#include "backend/add.h"

namespace ventris {

void add_cpu(Context& context, const AddArgs& args);

}  // namespace ventris
