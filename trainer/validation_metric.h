#pragma once

#include <string>

#include "data/corpus.h"
#include "data/scores/bleu.h"
#include "trainer/train_options.h"

namespace ventris {

class Communicator;

/// Replaces --valid-tokenize auto: by the tokenizer of the checkpoint of a resumed run, if it recorded one
/// (`recorded`, from recorded_metric(); "" for a new run); otherwise by the one that fits the references
/// (data/scores/fitting_tokenizer.h), or 13a if nothing is validated with BLEU. Returns a message with the
/// choice and its reason, empty for 13a and for the tokenizer of a checkpoint. The same on every rank; all
/// must call it, whatever their options, as they need not have been compared.
std::string resolve_valid_tokenizer(TrainOptions& options, const std::string& recorded,
                                    const data::Corpus& corpus, Communicator& communicator);

/// The BLEU options of validation; 13a for --valid-tokenize auto. Throws Error(kBadConfiguration) if
/// --valid-tokenize is unknown, and the errors of data/scores/line_tokenizer.h.
data::BleuOptions valid_bleu_options(const TrainOptions& options);

/// Whether the references of the validation pairs have no spaces although --valid-tokenize needs them
/// (data/scores/unspaced_text.h).
bool valid_words_are_phrases(const TrainOptions& options, const data::Corpus& corpus);

/// Replaces --valid-metric auto: by the metric of the checkpoint of a resumed run (`recorded`, from
/// recorded_metric(); "" for a new run); otherwise by chrF if valid_words_are_phrases(), or BLEU; if BLEU is
/// not computed, by chrF or else the loss. chrF is computed if chosen. The same on every rank.
void resolve_valid_metric(TrainOptions& options, const std::string& recorded, const data::Corpus& corpus);

/// The --valid-metric of a recorded_metric().
std::string metric_of(const std::string& recorded);

/// A text that is equal for comparable values of the metric: "chrf", "bleu" with 13a, "bleu:zh" with another
/// tokenizer.
std::string recorded_metric(const TrainOptions& options);

}  // namespace ventris
