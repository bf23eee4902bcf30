// SPDX-License-Identifier: Apache-2.0
#include "model/search/incremental_decoder.h"

#include <algorithm>
#include <limits>

#include "backend/device/transfer.h"
#include "backend/ops/attention.h"
#include "backend/ops/cast.h"
#include "model/pass.h"

namespace ventris {
namespace {

constexpr const char* kPurpose = "beam search";

/// Capacity of a new cache in tokens. On the CPU unused capacity is free, but growing the cache is not.
constexpr int64_t cache_steps(Device device) {
  return device == Device::kCpu ? 32 : 16;
}

Tensor make_sinusoids(Arena& memory, Context& context, const TransformerConfig& config, DType dtype) {
  if (config.learned_positions) return {};
  const DType master = master_dtype(dtype);
  memory = Arena(context.device(),
                 static_cast<size_t>(config.max_positions) * config.d_model * size_of(master) + 128);
  const Tensor sinusoids = memory.allocate(config.max_positions, config.d_model, master);
  fill_sinusoids(context, config, sinusoids);
  return sinusoids;
}

}  // namespace

IncrementalDecoder::IncrementalDecoder(Context& context, const TransformerConfig& config,
                                       ParameterStore& store, const TransformerIds& ids)
    : context_(context),
      config_(config),
      store_(store),
      sinusoids_(make_sinusoids(sinusoid_memory_, context, config, store.dtype())),
      embedding_(Stack::kDecoder, ids.target_embedding, ids.target_positions,
                 positions_of(store, "target_positions", sinusoids_)),
      memory_projection_(ids.memory_key_value),
      output_(ids),
      final_norm_(ids.decoder_norm),
      staged_(context) {
  for (const DecoderLayerIds& layer : ids.decoder) {
    layers_.push_back(
        {Linear(layer.self_attention.query_key_value), Linear(layer.self_attention.output),
         ResidualNorm(layer.self_attention.norm), Linear(layer.cross_attention.query),
         Linear(layer.cross_attention.output), ResidualNorm(layer.cross_attention.norm),
         FeedForwardLayer(Stack::kDecoder, static_cast<int>(layers_.size()), layer.feed_forward)});
  }
}

IncrementalDecoder::Activations IncrementalDecoder::plan_activations(Arena& arena, int64_t capacity) const {
  const DType dtype = store_.dtype();
  const int64_t d = config_.d_model;
  Activations planned;
  planned.embedded = arena.allocate(capacity, d, dtype);
  planned.query_key_value = arena.allocate(capacity, 3 * d, dtype);
  planned.query = arena.allocate(capacity, d, dtype);
  planned.attended = arena.allocate(capacity, d, dtype);
  planned.self_branch = arena.allocate(capacity, d, dtype);
  planned.cross_branch = arena.allocate(capacity, d, dtype);
  planned.self_norm = ResidualNorm::plan(arena, config_, dtype, capacity);
  planned.cross_norm = ResidualNorm::plan(arena, config_, dtype, capacity);
  planned.feed_forward = FeedForwardLayer::plan(arena, config_, dtype, capacity);
  planned.final_norm = ResidualNorm::plan(arena, config_, dtype, capacity);
  planned.logits = arena.allocate(std::min(logit_rows(context_.device()), capacity), config_.padded_vocab(),
                                  store_.is_packed() ? master_dtype(dtype) : dtype);
  return planned;
}

void IncrementalDecoder::reserve_activations(int64_t hypotheses) {
  if (hypotheses <= activation_capacity_) return;
  synchronize(context_);  // pending work may use the old memory
  activation_capacity_ = std::max(hypotheses, activation_capacity_ * 3 / 2);
  Arena measure;
  plan_activations(measure, activation_capacity_);
  activation_memory_ = Arena(context_.device(), measure.high_water(), kPurpose);
  activations_ = plan_activations(activation_memory_, activation_capacity_);
}

MicroBatch IncrementalDecoder::micro_batch(int64_t rows) const {
  return {.target_rows = rows, .target_ids = lists_.tokens, .target_position = lists_.positions};
}

void IncrementalDecoder::project_memory(ConstTensor memory) {
  const int64_t cols = int64_t{2} * config_.d_model * static_cast<int64_t>(layers_.size());
  if (memory.rows > projection_capacity_) {
    synchronize(context_);
    projection_capacity_ = std::max(memory.rows, projection_capacity_ * 3 / 2);
    Arena measure;
    measure.allocate(projection_capacity_, cols, store_.dtype());
    projection_memory_ = Arena(context_.device(), measure.high_water(), kPurpose);
    memory_key_value_ = projection_memory_.allocate(projection_capacity_, cols, store_.dtype());
  }
  const MicroBatch batch = micro_batch(0);
  Pass pass{.context = context_,
            .config = config_,
            .store = store_,
            .batch = batch,
            .kept = KeptActivations::kNone};
  memory_projection_.forward(pass, memory, memory_key_value_.row_range(0, memory.rows));
}

void IncrementalDecoder::begin(ConstTensor memory, std::span<const int32_t> source_offsets,
                               int64_t max_hypotheses) {
  VENTRIS_CHECK(!source_offsets.empty() && source_offsets.back() <= memory.rows,
                "{} source offsets for an encoder output of {} rows", source_offsets.size(), memory.rows);
  reserve_activations(max_hypotheses);
  project_memory(memory);
  source_offsets_.assign(source_offsets.begin(), source_offsets.end());
  sentence_.resize(source_offsets.size() - 1);
  for (size_t s = 0; s < sentence_.size(); ++s) sentence_[s] = static_cast<int32_t>(s);
  history_.clear();
  cache_used_ = 0;
  position_ = 0;
}

/// Ensures that the cache has `rows` free rows at its end. When it is full, the rows that are still in use
/// move, in order, to the front of a new one, which is at least twice their size.
void IncrementalDecoder::make_room(int64_t rows) {
  if (cache_used_ + rows <= cache_capacity_) return;
  std::vector<int32_t> moved_to(static_cast<size_t>(cache_used_), -1);
  for (const int32_t row : history_) moved_to[static_cast<size_t>(row)] = 0;
  int32_t live = 0;
  for (int32_t& row : moved_to) row = row < 0 ? -1 : live++;

  const int64_t capacity =
      std::max({cache_capacity_, rows * cache_steps(context_.device()), 2 * (live + rows)});
  const int64_t cols = int64_t{2} * config_.d_model;
  const auto plan = [&](Arena& arena) {
    std::vector<Tensor> planned;
    for (size_t i = 0; i < layers_.size(); ++i)
      planned.push_back(arena.allocate(capacity, cols, store_.dtype()));
    return planned;
  };
  Arena measure;
  plan(measure);
  Arena new_memory(context_.device(), measure.high_water(), kPurpose);
  const std::vector<Tensor> new_cache = plan(new_memory);
  for (int64_t from = 0; from < cache_used_;) {
    int64_t end = from + 1;
    const bool used = moved_to[static_cast<size_t>(from)] >= 0;
    while (end < cache_used_ && (moved_to[static_cast<size_t>(end)] >= 0) == used) ++end;
    for (size_t i = 0; used && i < layers_.size(); ++i) {
      cast(context_,
           {.source = cache_[i].row_range(from, end - from),
            .destination = new_cache[i].row_range(moved_to[static_cast<size_t>(from)], end - from)});
    }
    from = end;
  }
  for (int32_t& row : history_) row = moved_to[static_cast<size_t>(row)];
  synchronize(context_);  // the copies read the old memory
  cache_ = new_cache;
  cache_memory_ = std::move(new_memory);
  cache_capacity_ = capacity;
  cache_used_ = live;
}

void IncrementalDecoder::send_lists() {
  staged_.begin(tokens_.size() + positions_.size() + history_.size() + history_begin_.size() +
                source_rows_.size() + source_begin_.size());
  lists_ = {.tokens = staged_.add(tokens_),
            .positions = staged_.add(positions_),
            .history = staged_.add(history_),
            .history_begin = staged_.add(history_begin_),
            .source_rows = staged_.add(source_rows_),
            .source_begin = staged_.add(source_begin_)};
  staged_.send();
}

void IncrementalDecoder::step(std::span<const int32_t> parents, std::span<const int32_t> tokens) {
  const auto rows = static_cast<int64_t>(parents.size());
  VENTRIS_CHECK(rows > 0 && tokens.size() == parents.size() && rows <= activation_capacity_,
                "{} parents and {} tokens, room for {}", parents.size(), tokens.size(), activation_capacity_);
  VENTRIS_CHECK(position_ < config_.max_positions, "{} tokens, as many as there are positions", position_);
  const int64_t longest_list = std::max(position_ + 1, static_cast<int64_t>(source_offsets_.back()));
  VENTRIS_CHECK(rows <= std::numeric_limits<int32_t>::max() / longest_list,
                "{} hypotheses of {} tokens are too many for 32-bit row numbers", rows, longest_list);
  std::vector<int32_t> history;
  std::vector<int32_t> sentence;
  for (const int32_t parent : parents) {
    VENTRIS_CHECK(parent >= 0 && static_cast<size_t>(parent) < sentence_.size(), "parent {} of {}", parent,
                  sentence_.size());
    const auto first = history_.begin() + parent * position_;
    history.insert(history.end(), first, first + position_);
    sentence.push_back(sentence_[static_cast<size_t>(parent)]);
  }
  history_ = std::move(history);
  sentence_ = std::move(sentence);
  make_room(rows);

  const int64_t new_begin = cache_used_;
  cache_used_ += rows;
  std::vector<int32_t> extended;
  history_begin_.assign(1, 0);
  source_rows_.clear();
  source_begin_.assign(1, 0);
  for (int64_t r = 0; r < rows; ++r) {
    const auto first = history_.begin() + r * position_;
    extended.insert(extended.end(), first, first + position_);
    extended.push_back(static_cast<int32_t>(new_begin + r));
    history_begin_.push_back(static_cast<int32_t>(extended.size()));
    const auto s = static_cast<size_t>(sentence_[static_cast<size_t>(r)]);
    for (int32_t row = source_offsets_[s]; row < source_offsets_[s + 1]; ++row) source_rows_.push_back(row);
    source_begin_.push_back(static_cast<int32_t>(source_rows_.size()));
  }
  history_ = std::move(extended);
  tokens_.assign(tokens.begin(), tokens.end());
  positions_.assign(static_cast<size_t>(rows), static_cast<int32_t>(position_));
  ++position_;
  send_lists();

  const MicroBatch batch = micro_batch(rows);
  Pass pass{.context = context_,
            .config = config_,
            .store = store_,
            .batch = batch,
            .kept = KeptActivations::kNone};
  const Tensor embedded = activations_.embedded.row_range(0, rows);
  embedding_.forward(pass, embedded);
  ResidualStream stream{.residual = embedded, .input = embedded};
  for (size_t i = 0; i < layers_.size(); ++i) {
    self_attention(pass, stream, i, new_begin);
    cross_attention(pass, stream, i);
    layers_[i].feed_forward.forward(pass, stream, activations_.feed_forward);
  }
  if (config_.pre_norm) ResidualNorm(final_norm_).forward(pass, stream, activations_.final_norm);
  hidden_ = stream.input;
}

void IncrementalDecoder::self_attention(Pass& pass, ResidualStream& stream, size_t layer, int64_t new_begin) {
  const Layer& l = layers_[layer];
  if (config_.pre_norm) l.self_norm.forward(pass, stream, activations_.self_norm);
  const int64_t rows = stream.input.rows;
  const int64_t d = config_.d_model;
  const Tensor qkv = activations_.query_key_value.row_range(0, rows);
  const Tensor attended = activations_.attended.row_range(0, rows);
  l.self_projection.forward(pass, stream.input, qkv);
  cast(context_,
       {.source = qkv.col_range(d, 2 * d), .destination = cache_[layer].row_range(new_begin, rows)});
  attention_decode(context_, {.query = qkv.col_range(0, d),
                              .key = cache_[layer].col_range(0, d),
                              .value = cache_[layer].col_range(d, d),
                              .key_rows = lists_.history,
                              .key_begin = lists_.history_begin,
                              .heads = config_.heads,
                              .scale = attention_scale(config_),
                              .out = attended});
  stream.branch = activations_.self_branch.row_range(0, rows);
  l.self_output.forward(pass, attended, stream.branch);
  if (!config_.pre_norm) l.self_norm.forward(pass, stream, activations_.self_norm);
}

void IncrementalDecoder::cross_attention(Pass& pass, ResidualStream& stream, size_t layer) {
  const Layer& l = layers_[layer];
  if (config_.pre_norm) l.cross_norm.forward(pass, stream, activations_.cross_norm);
  const int64_t rows = stream.input.rows;
  const int64_t d = config_.d_model;
  const Tensor query = activations_.query.row_range(0, rows);
  const Tensor attended = activations_.attended.row_range(0, rows);
  l.cross_query.forward(pass, stream.input, query);
  const auto first_column = static_cast<int64_t>(layer) * 2 * d;
  attention_decode(context_, {.query = query,
                              .key = memory_key_value_.col_range(first_column, d),
                              .value = memory_key_value_.col_range(first_column + d, d),
                              .key_rows = lists_.source_rows,
                              .key_begin = lists_.source_begin,
                              .heads = config_.heads,
                              .scale = attention_scale(config_),
                              .out = attended});
  stream.branch = activations_.cross_branch.row_range(0, rows);
  l.cross_output.forward(pass, attended, stream.branch);
  if (!config_.pre_norm) l.cross_norm.forward(pass, stream, activations_.cross_norm);
}

Tensor IncrementalDecoder::logits(int64_t begin, int64_t rows) {
  VENTRIS_CHECK(rows <= logit_rows(context_.device()) && begin + rows <= hidden_.rows,
                "logits of [{}, {}) of {} rows", begin, begin + rows, hidden_.rows);
  const Tensor logits = activations_.logits.row_range(0, rows);
  const MicroBatch batch = micro_batch(rows);
  Pass pass{.context = context_,
            .config = config_,
            .store = store_,
            .batch = batch,
            .kept = KeptActivations::kNone};
  output_.logits(pass, hidden_.row_range(begin, rows), logits);
  return logits;
}

}  // namespace ventris
