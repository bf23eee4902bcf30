// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "data/text/tokenizer.h"
#include "trainer/checkpoint/weights.h"

namespace ventris {

/// Files of a model of Marian; "": by the defaults of ImportOptions.
struct MarianFiles {
  std::string vocabulary = {};  // in YAML
  std::string tokenizer = {};   // the SentencePiece model of its tokens
  bool empty() const { return vocabulary.empty() && tokenizer.empty(); }
};

/// Defaults, beside the model: if all its tables are one, source.spm and, if it is there, vocab.yml;
/// otherwise SIDE.spm and, if they are there, SIDE.vocab.yml or, where both SentencePiece models are equal,
/// vocab.yml.
struct ImportOptions {
  std::string input;      // a file or run folder of ours, or a model of Marian (.npz)
  MarianFiles both = {};  // of both sides
  MarianFiles source = {};
  MarianFiles target = {};
};

/// Loads a model in f32 that computes the same function as the file's. Throws Error(kBadData) or DataError
/// for a damaged file, and for one that our model cannot express, naming what.
std::unique_ptr<LoadedModel> import_model(Context& context, const ImportOptions& options);

/// Whether the file is an npz, as models of Marian are. False for one that cannot be read.
bool is_npz(const std::string& path);

/// The SentencePiece models in such a file, or in a corpus file of ours. Throws as import_model().
data::TokenizerModels tokenizer_models_of(const std::string& path);

}  // namespace ventris
