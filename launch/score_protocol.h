// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/scores/score_protocol.h"
#include "launch/option_table.h"

namespace ventris {

/// --protocol, --language and --tokenized.
void add_protocol_options(data::ProtocolOptions& options, OptionTable& table);

}  // namespace ventris
