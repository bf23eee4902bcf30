// SPDX-License-Identifier: Apache-2.0
#include "data/text/subword_sampler.h"

#include <algorithm>
#include <utility>

#include "data/error.h"
#include "data/text/word_independence.h"

namespace ventris::data {

namespace {

// These bound the memory of all words, to some 50 MB.
constexpr size_t kMaxWords = size_t{1} << 16;
constexpr size_t kMaxEdges = size_t{1} << 21;
constexpr size_t kLongestSampledWord = 64;  // bytes

std::unique_ptr<SubwordModel> model_of(uint64_t kind, const SubwordPieces& pieces, double alpha) {
  if (pieces.has_unused()) {
    fail(ErrorKind::kBadConfiguration,
         "the tokenizer of the corpus has unused pieces, and its segmentations cannot be sampled; "
         "expected is a SentencePiece model without them. Train without --sample-source and --sample-target");
  }
  switch (kind) {
    case kModelBpe:
      return bpe_dropout(pieces, alpha);
    case kModelUnigram:
      return unigram_sampling(pieces, alpha);
    default:
      fail(ErrorKind::kBadConfiguration,
           "the tokenizer of the corpus has only one segmentation of a text, which leaves nothing to sample; "
           "expected is a BPE or unigram model. Train without --sample-source and --sample-target");
  }
}

}  // namespace

SubwordSampler::SubwordSampler(const Tokenizer& tokenizer, double alpha)
    : SubwordSampler(tokenizer, SentencePieceModel(tokenizer.model()), alpha) {}

SubwordSampler::SubwordSampler(const Tokenizer& tokenizer, const SentencePieceModel& model, double alpha)
    : tokenizer_(tokenizer),
      pieces_(model),
      model_(model_of(model.kind, pieces_, alpha)),
      words_apart_(!pieces_.has_user_defined() && pieces_.ends_at_words() &&
                   words_are_normalised_apart(model)) {
  for (int byte = 0; model.byte_fallback && byte < 256; ++byte)
    byte_ids_.push_back(tokenizer.find(fmt::format("<0x{:02X}>", byte)));
}

void SubwordSampler::sample(std::string_view text, uint64_t key, std::vector<int32_t>& ids) {
  ids.clear();
  after_unknown_ = false;
  KeyedRandom random(key);
  if (!words_apart_ || text.find(kSpaceMark) != std::string_view::npos) {
    append(model_->prepare(normalised(text)), random, ids);
    return;
  }
  while (!text.empty()) {
    const size_t size = std::min(text.find(' '), text.size());
    if (size > 0) append_word(text.substr(0, size), random, ids);
    text.remove_prefix(std::min(size + 1, text.size()));
  }
}

const std::string& SubwordSampler::normalised(std::string_view text) {
  tokenizer_.encode(text, plain_, normalised_);
  return normalised_;
}

void SubwordSampler::append_word(std::string_view word, KeyedRandom& random, std::vector<int32_t>& ids) {
  if (word.size() > kLongestSampledWord) {
    append(model_->prepare(normalised(word)), random, ids);
    return;
  }
  auto found = words_.find(word);
  if (found == words_.end()) {
    if (words_.size() == kMaxWords || edges_ > kMaxEdges) {
      words_.clear();
      edges_ = 0;
    }
    found = words_.emplace(word, model_->prepare(normalised(word))).first;
    edges_ += found->second.edges.size();
  }
  append(found->second, random, ids);
}

void SubwordSampler::append(const SubwordText& text, KeyedRandom& random, std::vector<int32_t>& ids) {
  tokens_.clear();
  model_->draw(text, random, tokens_);
  for (const SubwordModel::Token& token : tokens_) {
    if (token.id != SubwordModel::kUnknown) {
      ids.push_back(token.id);
    } else if (!byte_ids_.empty()) {
      for (uint32_t at = text.begin[token.begin]; at < text.begin[token.end]; ++at)
        ids.push_back(byte_ids_[static_cast<unsigned char>(text.text[at])]);
    } else if (!after_unknown_) {
      ids.push_back(tokenizer_.unknown_id());
    }
    after_unknown_ = token.id == SubwordModel::kUnknown;
  }
}

}  // namespace ventris::data
