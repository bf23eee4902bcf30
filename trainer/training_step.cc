// SPDX-License-Identifier: Apache-2.0
#include "trainer/training_step.h"

#include <exception>
#include <limits>

#include "backend/device/profile.h"
#include "backend/device/transfer.h"
#include "backend/ops/cast.h"
#include "model/pass.h"

namespace ventris {
namespace {

constexpr const char* kSumsPhase = "waiting for gradient sums";

}  // namespace

TrainingStep::TrainingStep(Context& context, Communicator& communicator, const TrainOptions& options,
                           int shards, ParameterStore& store, Transformer& transformer, Optimizer& optimizer)
    : context_(context),
      communicator_(communicator),
      shards_(shards),
      seed_(options.seed),
      captures_(!options.no_cuda_graph),
      store_(store),
      transformer_(transformer),
      optimizer_(optimizer),
      own_work_(context),
      device_communicator_(make_device_communicator(communicator, context)) {
  const OptimizerShard& shard = optimizer.shard();
  const int64_t tail = tail_of_sums(store, context.device());
  const bool in_tree = options.reduction == Reduction::kReproducible;
  if (in_tree && shard.is_part()) {
    tree_reducer_.emplace(context, sums(), shards, store.gradients(), transformer.loss_sums(), shard.plan());
  } else if (in_tree) {
    tree_reducer_.emplace(context, sums(), shards, store.gradients(), transformer.loss_sums(),
                          sums().bucket_bytes(), tail);
  } else if (shard.is_part()) {
    reducer_.emplace(context, sums(), store.gradients(), shard.plan());
  } else {
    reducer_.emplace(context, sums(), store.gradients(), options.gradient_dtype, sums().bucket_bytes(), tail);
  }
}

TrainingStep::~TrainingStep() {
  if (device_communicator_ && std::uncaught_exceptions() > 0) device_communicator_->abandon();
}

BatchFeed::Share TrainingStep::share() const {
  const TreeNode terms = share_of_rank(shards_, communicator_.rank(), communicator_.size());
  return {terms.begin, terms.end};
}

TrainingStep::Enqueued TrainingStep::enqueue(BatchFeed& feed, double learning_rate,
                                             const std::function<bool()>& stops,
                                             const std::function<void(int64_t done, int64_t of)>& enqueued) {
  optimizer_.set_learning_rate(learning_rate);
  const GradientsReady ready = [this](int64_t begin) { reduce(begin); };
  const LossReady loss_ready = [this] { reduce_loss(); };
  const auto [begin, end] = share();
  own_work_.start();
  Enqueued step;
  const bool may_stop = !context_.profile().measuring();
  // Sums between devices are captured with the last micro-batch, at its stage; it is therefore always
  // computed, and those before it are skipped.
  const bool last_is_due = device_communicator_ != nullptr;
  for (int64_t s = begin; s < end; ++s) {
    const bool last = s + 1 == end;
    if (!step.abandoned && may_stop && stops()) {
      step.abandoned = true;
      spoil_loss();
    }
    if (step.abandoned && !last_is_due) continue;
    const BatchFeed::Piece piece = next_micro_batch(feed);
    if (step.abandoned && !last) continue;
    run(piece, last, [&] {
      transformer_.forward_backward(piece.batch, seed_, last ? ready : GradientsReady(),
                                    last ? loss_ready : LossReady());
      if (last) finish();
    });
    if (!last && tree_reducer_) {  // outside of graphs: the operands depend on the shard
      const ProfileRange range(context_, kSumsPhase);
      tree_reducer_->set_aside(s);
    }
    step.flops += piece.flops.total();
    enqueued(++step.micro_batches, end - begin);
  }
  if (begin == end || (step.abandoned && !last_is_due)) {  // a rank without shards still takes part
    if (step.abandoned) fill_zero(context_, store_.gradients());
    reduce_loss();
    reduce(0);
    finish();
  }
  check_sums();  // a replayed graph does not check for failures
  return step;
}

/// Backward passes and sums only add to the loss, so NaN remains.
void TrainingStep::spoil_loss() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  copy_to_device(context_, transformer_.loss_sums().data, &nan, sizeof(nan));
}

BatchFeed::Piece TrainingStep::next_micro_batch(BatchFeed& feed) {
  const ProfileRange range(context_, kBatchPhase);
  return feed.next_micro_batch();
}

void TrainingStep::reduce_loss() {
  if (tree_reducer_) {
    tree_reducer_->loss_ready();
  } else {
    sums().start_all_reduce_sum(transformer_.loss_sums());
  }
}

void TrainingStep::reduce(int64_t begin) {
  if (tree_reducer_) {
    tree_reducer_->ready(begin);
  } else {
    reducer_->ready(begin);
  }
}

/// The work after the last backward pass: waits for the sums over the ranks, and updates with Adam.
void TrainingStep::finish() {
  own_work_.stop();
  {
    const ProfileRange range(context_, kSumsPhase);
    if (tree_reducer_) {
      tree_reducer_->finish();
    } else {
      reducer_->finish();  // and the sum of the loss
    }
  }
  optimizer_.update(transformer_.loss_sums(), sums());
}

void TrainingStep::share_masters() {
  if (!optimizer_.shard().is_part()) return;
  optimizer_.shard().share_masters(sums());
  synchronize(context_);
  check_sums();
}

void TrainingStep::check_sums() {
  if (device_communicator_) device_communicator_->progress();
}

void TrainingStep::run(const BatchFeed::Piece& piece, bool last, const std::function<void()>& work) {
  if (context_.profile().measuring()) {
    work();
    measured_flops_ += piece.flops;
  } else {
    graph_of(piece, last).run(work);
  }
}

StepGraph& TrainingStep::graph_of(const BatchFeed::Piece& piece, bool last) {
  ShapedGraph& shaped = graphs_[static_cast<size_t>(piece.stage)][last ? 1 : 0];
  const MicroBatchCapacity shape = {piece.batch.source_rows, piece.batch.target_rows, piece.batch.sentences};
  if (!shaped.graph || shape != shaped.shape) {
    shaped.shape = shape;
    // NCCL requires that a sum is captured on all ranks or on none; ranks with different numbers of shards
    // reach the same stage in different steps.
    const bool alike = !last || shards_ % communicator_.size() == 0;
    shaped.graph.emplace(context_, alike && captures_);
  }
  return *shaped.graph;
}

}  // namespace ventris
