// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <sentencepiece_trainer.h>

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ventris::data {

/// The options of SentencePiece's trainer, also those that we do not offer.
using SentencePieceArguments = std::unordered_map<std::string, std::string>;

/// The bytes of a model that is trained on the text.
inline std::string train_sentencepiece(std::vector<std::string> text, SentencePieceArguments arguments) {
  class Sentences : public sentencepiece::SentenceIterator {
   public:
    explicit Sentences(std::vector<std::string> sentences) : sentences_(std::move(sentences)) {}
    bool done() const override { return at_ >= sentences_.size(); }
    void Next() override { ++at_; }
    const std::string& value() const override { return sentences_[at_]; }
    sentencepiece::util::Status status() const override { return {}; }

   private:
    std::vector<std::string> sentences_;
    size_t at_ = 0;
  };
  arguments.insert({{"model_type", "bpe"}, {"minloglevel", "3"}});
  Sentences sentences(std::move(text));
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(arguments, &sentences, &model);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return model;
}

}  // namespace ventris::data
