// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "backend/error.h"

namespace ventris {

/// A file has numbers that training cannot produce (trainer/files/sound_state.h).
class UnsoundState : public Error {
 public:
  /// `fault` as "NaN or Inf in /adam/m".
  UnsoundState(const std::string& path, const std::string& fault)
      : Error(ExitCode::kBadData,
              fmt::format("{}: there is {}: the run that wrote it diverged, or the file was changed; "
                          "use an earlier checkpoint",
                          path, fault)),
        fault_(fault) {}
  const std::string& fault() const { return fault_; }

 private:
  std::string fault_;
};

}  // namespace ventris
