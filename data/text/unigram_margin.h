// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "data/text/subword_pieces.h"

// Private to data/.

namespace ventris::data {

/// By how much the best segmentation of a text is better than any other, in a unigram model that
/// words_are_independent() accepts. For one thread at a time; copies
/// share the vocabulary.
class UnigramMargin {
 public:
  /// The bytes of the model must outlive the object.
  explicit UnigramMargin(std::string_view model);

  struct Sums {  // of the scores of a segmentation, in double precision
    double best = 0.0;
    double second = 0.0;  // -infinity: there is only one
    uint32_t characters = 0;
  };
  Sums of(std::string_view normalised);

 private:
  struct Ends {  // the two best segmentations up to a byte
    double best;
    double second;
  };

  std::shared_ptr<const SubwordPieces> pieces_;
  double unknown_score_;
  std::vector<Ends> ends_;
};

}  // namespace ventris::data
