// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ventris {

class Communicator;
class ModelSet;
struct Command;

/// Compares a command and its options over the ranks, one by one; paths and threads may differ, but not
/// whether a path is given. Throws Error(kRanksDisagree) naming the option, the rank and both values, on
/// every rank.
void check_same_command_on_all_ranks(Communicator& communicator, const Command& command);

/// Compares the bytes of the models' files over the ranks, on which their names may differ. Same errors.
void check_same_models_on_all_ranks(Communicator& communicator, const ModelSet& models);

}  // namespace ventris
