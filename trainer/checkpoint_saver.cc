#include "trainer/checkpoint_saver.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ventris {
namespace {

// The newest may turn out to be damaged when it is needed.
constexpr int kLeastKept = 2;

}  // namespace

CheckpointSaver::CheckpointSaver(Context& context, const ParameterStore& store, bool with_average, Run run)
    : run_(std::move(run)), snapshot_(context, store, with_average) {}

CheckpointSaver::~CheckpointSaver() {
  if (under_way_.valid()) under_way_.wait();
}

std::string CheckpointSaver::save(const TrainingState& state, const OptimizerState& optimizer,
                                  const std::string& provenance, const std::optional<Best>& best) {
  finish();
  snapshot_.take(state, optimizer);
  under_way_ = std::async(std::launch::async, [this, provenance, best] { write(provenance, best); });
  return path_of_checkpoint(run_.model_dir, state.step);
}

bool CheckpointSaver::check() {
  return under_way_.valid() && under_way_.wait_for(std::chrono::seconds(0)) == std::future_status::ready &&
         finish();
}

bool CheckpointSaver::finish() {
  if (!under_way_.valid()) return false;
  under_way_.get();
  return true;
}

std::string CheckpointSaver::last_verified() {
  if (under_way_.valid()) under_way_.wait();
  return last_verified_;
}

void CheckpointSaver::write(const std::string& provenance, const std::optional<Best>& best) {
  const std::string path =
      write_checkpoint(run_.model_dir, snapshot_, run_.config, run_.tokenizer_model, provenance);
  last_verified_ = path;
  if (best) write_best(run_.model_dir, path, best->metric, best->value);
  prune_checkpoints(run_.model_dir, std::max(run_.keep, kLeastKept));
}

}  // namespace ventris
