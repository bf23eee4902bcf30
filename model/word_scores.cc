#include "model/word_scores.h"

#include <algorithm>

#include "backend/top_k.h"
#include "backend/transfer.h"

namespace ventris {
namespace {

constexpr int64_t kRows = IncrementalDecoder::kLogitRows;
constexpr size_t kListsBytes = static_cast<size_t>(kRows) * sizeof(int32_t) + 1024;

}  // namespace

WordScores::WordScores(Context& context, int64_t vocab_size, const BeamSearchOptions& options)
    : context_(context),
      vocab_size_(vocab_size),
      beam_size_(options.beam_size),
      lists_(context.device(), kListsBytes, "beam search"),
      banned_(lists_.allocate_array<int32_t>(3)),
      end_labels_(lists_.allocate_array<int32_t>(kRows)) {
  const int32_t banned[3] = {options.begin_id, options.unknown_id, -1};
  copy_to_device(context_, banned_, banned, sizeof(banned));
  const std::vector<int32_t> labels(static_cast<size_t>(kRows), options.end_id);
  copy_to_device(context_, end_labels_, labels.data(), labels.size() * sizeof(int32_t));
}

size_t WordScores::bytes(int64_t rows) const {
  return static_cast<size_t>(rows * (2 * beam_size_ + 1)) * sizeof(float);
}

WordScores::Scores WordScores::pieces(void* block, int64_t rows) const {
  auto* values = static_cast<float*>(block);
  float* ends = values + 2 * rows * beam_size_;
  return {values, reinterpret_cast<int32_t*>(values + rows * beam_size_), ends};
}

void WordScores::reserve(int64_t rows) {
  if (rows <= capacity_) return;
  capacity_ = std::max(rows, capacity_ * 3 / 2);
  synchronize(context_);  // work under way may use the old memory
  memory_ = Arena(context_.device(), bytes(capacity_), "beam search");
  block_ = memory_.allocate(bytes(capacity_));
}

void WordScores::compute(IncrementalDecoder& decoder, int64_t rows, bool want_end) {
  reserve(rows);
  const Scores device = pieces(block_, rows);
  for (int64_t begin = 0; begin < rows; begin += kRows) {
    const ConstTensor logits = decoder.logits(begin, std::min(kRows, rows - begin));
    log_softmax_top_k(context_, {.logits = logits,
                                 .vocab = vocab_size_,
                                 .k = static_cast<int>(beam_size_),
                                 .banned = banned_,
                                 .values = device.values + begin * beam_size_,
                                 .indices = device.words + begin * beam_size_});
    if (!want_end) continue;
    log_probability(context_, {.logits = logits,
                               .labels = end_labels_,
                               .vocab = vocab_size_,
                               .log_probabilities = device.ends + begin});
  }
  const int64_t numbers = want_end ? 2 * beam_size_ + 1 : 2 * beam_size_;
  copy_.resize(bytes(rows));
  copy_to_host(context_, copy_.data(), block_, static_cast<size_t>(rows * numbers) * sizeof(float));
  scores_ = pieces(copy_.data(), rows);
}

}  // namespace ventris
