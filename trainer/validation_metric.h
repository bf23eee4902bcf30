#pragma once

#include <string>

#include "data/corpus.h"
#include "data/scores/bleu.h"
#include "trainer/train_options.h"

namespace ventris {

/// How validation computes BLEU. Throws Error(kBadConfiguration) where --valid-tokenize is not known, and
/// what data/scores/line_tokenizer.h throws.
data::BleuOptions valid_bleu_options(const TrainOptions& options);

/// Whether the references of the validation pairs have no spaces where --valid-tokenize needs them
/// (data/scores/unspaced_text.h).
bool valid_words_are_phrases(const TrainOptions& options, const data::Corpus& corpus);

/// Puts another metric in the place of --valid-metric auto: the one of the checkpoint from which the run goes
/// on (`recorded`, as recorded_metric() had it; "" where the run starts anew); else chrF where
/// valid_words_are_phrases(), else BLEU; and where BLEU is not computed chrF or, that neither, the loss. chrF
/// is computed where it is chosen. The same on every rank.
void resolve_valid_metric(TrainOptions& options, const std::string& recorded, const data::Corpus& corpus);

/// What makes values of the metric comparable: "chrf", "bleu" with 13a, "bleu:zh" with another tokenizer.
std::string recorded_metric(const TrainOptions& options);

}  // namespace ventris
