#include "trainer/training_step.h"

#include <exception>

#include "backend/profile.h"

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
      transformer_(transformer),
      optimizer_(optimizer),
      device_communicator_(make_device_communicator(communicator, context)) {
  if (options.reduction == Reduction::kReproducible) {
    tree_reducer_.emplace(context, sums(), shards, store.gradients(), transformer.loss_sums());
  } else {
    reducer_.emplace(context, sums(), store.gradients(), options.gradient_dtype);
  }
}

TrainingStep::~TrainingStep() {
  if (device_communicator_ && std::uncaught_exceptions() > 0) device_communicator_->abandon();
}

BatchFeed::Share TrainingStep::share() const {
  const TreeNode terms = share_of_rank(shards_, communicator_.rank(), communicator_.size());
  return {terms.begin, terms.end};
}

double TrainingStep::enqueue(BatchFeed& feed, double learning_rate) {
  optimizer_.set_learning_rate(learning_rate);
  const GradientsReady ready = [this](int64_t begin) { reduce(begin); };
  const auto [begin, end] = share();
  double flops = 0.0;
  for (int64_t s = begin; s < end; ++s) {
    const BatchFeed::Piece piece = next_micro_batch(feed);
    const bool last = s + 1 == end;
    run(piece, last, [&] {
      transformer_.forward_backward(piece.batch, seed_, last ? ready : GradientsReady());
      if (last) finish();
    });
    if (!last && tree_reducer_) {  // outside of graphs: what is added to depends on the shard
      const ProfileRange range(context_, kSumsPhase);
      tree_reducer_->set_aside(s);
    }
    flops += piece.flops.total();
  }
  if (begin == end) {  // a rank without shards takes part all the same
    reduce(0);
    finish();
  }
  check_sums();  // a replayed graph does not look for failures
  return flops;
}

BatchFeed::Piece TrainingStep::next_micro_batch(BatchFeed& feed) {
  const ProfileRange range(context_, kBatchPhase);
  return feed.next_micro_batch();
}

void TrainingStep::reduce(int64_t begin) {
  if (tree_reducer_) {
    tree_reducer_->ready(begin);
  } else {
    reducer_->ready(begin);
  }
}

/// What follows the last backward pass: gradients and loss become those of the global batch, and Adam uses
/// them.
void TrainingStep::finish() {
  {
    const ProfileRange range(context_, kSumsPhase);
    if (tree_reducer_) {
      tree_reducer_->finish();
    } else {
      sums().start_all_reduce_sum(transformer_.loss_sums());
      reducer_->finish();  // with all sums under way
    }
  }
  optimizer_.update(transformer_.loss_sums());
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
    // NCCL wants a sum to be captured on all ranks or on none; ranks with other numbers of shards come to the
    // same stage in other steps.
    const bool alike = !last || shards_ % communicator_.size() == 0;
    shaped.graph.emplace(context_, alike && captures_);
  }
  return *shaped.graph;
}

}  // namespace ventris
