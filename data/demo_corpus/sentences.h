// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/demo_corpus/phrases.h"

// Private to data/: the lines of the demo corpus.

namespace ventris::data::demo {

/// One line of the corpus.
DemoPair sentence(Random& random);

}  // namespace ventris::data::demo
