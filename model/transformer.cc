// SPDX-License-Identifier: Apache-2.0
#include "model/transformer.h"

#include <algorithm>
#include <optional>

#include "backend/device/profile.h"
#include "backend/device/transfer.h"
#include "backend/ops/cast.h"
#include "backend/ops/column_sums.h"
#include "model/decoder.h"
#include "model/encoder.h"
#include "model/output_layer.h"
#include "model/pass.h"
#include "model/search_attention.h"

namespace ventris {
namespace {

/// All memory of a model except its parameters, planned in one arena.
struct Activations {
  Tensor sinusoids = {};  // [max_positions, d_model] master, if positions are not learned
  Encoder::Saved encoder;
  Decoder::Saved decoder;
  OutputLayer::Memory output;
  BatchAttentionWork attention_work;
  GradientStream gradients;  // used by both stacks, one after the other

  void plan(Arena& arena, const TransformerConfig& config, Device device, DType dtype,
            const MicroBatchCapacity& capacity, KeptActivations kept) {
    if (!config.learned_positions) {
      sinusoids = arena.allocate(config.max_positions, config.d_model, master_dtype(dtype));
    }
    encoder = Encoder::plan(arena, config, dtype, capacity.source_rows, kept);
    decoder = Decoder::plan(arena, config, dtype, capacity, kept);
    const bool training = kept != KeptActivations::kNone;
    // Logits of a model for inference are not rounded to T.
    const DType of_logits = training ? OutputLayer::logits_dtype(device, dtype) : master_dtype(dtype);
    output = OutputLayer::plan(arena, config, device, of_logits, capacity.target_rows);
    attention_work = BatchAttentionWork::plan(arena, device, dtype, capacity);
    if (!training) return;
    const int64_t rows = std::max(capacity.source_rows, capacity.target_rows);
    const int64_t wide = std::max<int64_t>(int64_t{3} * config.d_model, config.d_ff);
    gradients.residual = arena.allocate(rows, config.d_model, dtype);
    gradients.branch = arena.allocate(rows, config.d_model, dtype);
    gradients.input = arena.allocate(rows, config.d_model, dtype);
    gradients.wide = arena.allocate(rows, wide, dtype);
  }
};

}  // namespace

size_t Transformer::planned_bytes(const TransformerConfig& config, Device device, DType dtype,
                                  const MicroBatchCapacity& capacity, KeptActivations kept) {
  Arena arena;
  Activations{}.plan(arena, config, device, dtype, capacity, kept);
  return arena.high_water();
}

struct Transformer::Impl {
  Impl(Context& context_in, const TransformerConfig& config_in, ParameterStore& store_in,
       const TransformerIds& ids_in, const MicroBatchCapacity& capacity_in, KeptActivations kept_in)
      : context(context_in),
        config(config_in),
        store(store_in),
        capacity(capacity_in),
        kept(kept_in),
        memory(context.device(), planned_bytes(config, context.device(), store.dtype(), capacity, kept),
               "activations of the model"),
        activations(plan()),
        encoder(ids_in, positions_of(store, "source_positions", activations.sinusoids)),
        decoder(ids_in, positions_of(store, "target_positions", activations.sinusoids)),
        ids(ids_in),
        output(ids) {}

  Activations plan() {
    Activations planned;
    planned.plan(memory, config, context.device(), store.dtype(), capacity, kept);
    if (planned.sinusoids) fill_sinusoids(context, config, planned.sinusoids);
    return planned;
  }

  Pass pass(const MicroBatch& batch, bool source_only) {
    VENTRIS_CHECK(batch.sentences <= capacity.sentences && batch.source_rows <= capacity.source_rows,
                  "the micro-batch has {} sentences and {} source rows; the model is planned for {} and {}",
                  batch.sentences, batch.source_rows, capacity.sentences, capacity.source_rows);
    VENTRIS_CHECK(source_only || batch.target_rows <= capacity.target_rows,
                  "the micro-batch has {} target rows; the model is planned for {}", batch.target_rows,
                  capacity.target_rows);
    return {.context = context,
            .config = config,
            .store = store,
            .batch = batch,
            .attention_work = activations.attention_work,
            .kept = kept};
  }

  ConstTensor decode(Pass& pass) {
    const ConstTensor memory = encode(pass);
    const ProfileRange range(context, kDecoderForward);
    std::optional<SearchAttention> search;
    if (pass.weights == nullptr && store.packed(ids.output).packing == Packing::kInt8) {
      pass.search = &search.emplace(pass.batch);
    }
    return decoder.forward(pass, memory, activations.decoder);
  }

  ConstTensor encode(Pass& pass) {
    const ProfileRange range(context, kEncoderForward);
    return encoder.forward(pass, activations.encoder);
  }

  /// Takes the gradient of the decoder output in target.input_gradient().
  void backward(Pass& pass, GradientStream target, const GradientsReady& ready) {
    GradientStream source = activations.gradients.top(pass.batch.source_rows);
    {
      const ProfileRange range(context, kDecoderBackward);
      decoder.backward(pass, target, source.input_gradient(config.pre_norm), activations.decoder, ready);
    }
    if (store.trains_before(ids.first_of_decoder())) {
      const ProfileRange range(context, kEncoderBackward);
      encoder.backward(pass, source, activations.encoder, ready);
    }
  }

  void train(Pass& pass, const GradientsReady& ready, const LossReady& loss_ready) {
    const ConstTensor hidden = decode(pass);
    const GradientStream target = activations.gradients.top(pass.batch.target_rows);
    {
      const ProfileRange range(context, kOutputAndLoss);
      output.loss(pass, hidden, target.input_gradient(config.pre_norm), activations.output);
    }
    if (loss_ready) loss_ready();
    backward(pass, target, ready);
  }

  Context& context;
  const TransformerConfig config;
  ParameterStore& store;
  const MicroBatchCapacity capacity;
  const KeptActivations kept;
  Arena memory;
  Activations activations;
  Encoder encoder;
  Decoder decoder;
  const TransformerIds ids;
  OutputLayer output;
};

Transformer::Transformer(Context& context, const TransformerConfig& config, ParameterStore& store,
                         const TransformerIds& ids, const MicroBatchCapacity& capacity, KeptActivations kept)
    : impl_(std::make_unique<Impl>(context, config, store, ids, capacity, kept)) {}

Transformer::~Transformer() = default;

void Transformer::forward_backward(const MicroBatch& batch, uint64_t dropout_seed,
                                   const GradientsReady& ready, const LossReady& loss_ready) {
  VENTRIS_CHECK(impl_->kept != KeptActivations::kNone, "the model was made for inference");
  VENTRIS_CHECK(
      batch.source_dropout != nullptr && batch.target_dropout != nullptr && batch.gradient_scale != nullptr,
      "the micro-batch has no dropout positions or no gradient_scale");
  Pass pass = impl_->pass(batch, /*source_only=*/false);
  GradientsReady complete;
  if (ready) {
    complete = [&](int64_t begin) {
      complete_column_sums(impl_->context);
      ready(begin);
    };
  }
  if (batch.target_rows > 0) {
    pass.dropout = true;
    pass.seed = dropout_seed;
    impl_->train(pass, complete, loss_ready);
  } else if (loss_ready) {
    loss_ready();
  }
  complete_column_sums(impl_->context);
  if (impl_->config.tie == Tie::kAll)
    clear_zero_token(impl_->context, impl_->config, impl_->store.gradient(impl_->ids.target_embedding));
  if (ready) ready(0);
}

void Transformer::evaluate(const MicroBatch& batch) {
  Pass pass = impl_->pass(batch, /*source_only=*/false);
  if (batch.target_rows > 0) impl_->output.loss(pass, impl_->decode(pass), {}, impl_->activations.output);
}

Tensor Transformer::loss_sums() {
  return {impl_->activations.output.totals, 1, 2, 2, DType::kF64};
}

LossSums Transformer::take_loss_sums() {
  const Tensor sums = loss_sums();
  double read[2];
  copy_to_host(impl_->context, read, sums.data, sizeof(read));
  fill_zero(impl_->context, sums);
  return {.loss = read[0], .nll = read[1]};
}

ConstTensor Transformer::encode(const MicroBatch& batch) {
  Pass pass = impl_->pass(batch, /*source_only=*/true);
  return impl_->encode(pass);
}

void Transformer::log_probabilities(const MicroBatch& batch, float* out) {
  Pass pass = impl_->pass(batch, /*source_only=*/false);
  if (batch.target_rows == 0) return;
  impl_->output.log_probabilities(pass, impl_->decode(pass), out, impl_->activations.output);
}

void Transformer::logits(const MicroBatch& batch, Tensor logits) {
  Pass pass = impl_->pass(batch, /*source_only=*/false);
  impl_->output.logits(pass, impl_->decode(pass), logits);
}

void Transformer::attention_weights(const MicroBatch& batch, const AttentionWeights& weights) {
  Pass pass = impl_->pass(batch, /*source_only=*/false);
  pass.weights = &weights;
  impl_->decode(pass);
}

const TransformerConfig& Transformer::config() const {
  return impl_->config;
}

size_t Transformer::activation_bytes() const {
  return impl_->memory.capacity();
}

}  // namespace ventris
