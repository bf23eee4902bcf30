#include "trainer/training_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>

#include "backend/error.h"
#include "backend/moving_average.h"
#include "backend/profile.h"
#include "comm/affinity.h"
#include "trainer/agreement.h"
#include "trainer/config_json.h"
#include "trainer/model_files.h"
#include "trainer/text.h"

namespace ventris {
namespace {

// Of a global batch: offsets of sentences and the rows that key dropout are of 32 bits.
constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();

// Where --micro-batch-tokens is 0. A GPU takes the batches of the paper in one piece.
constexpr int64_t kCpuMicroBatchTokens = 4096;
constexpr int64_t kCudaMicroBatchTokens = 32768;
// The fewest where they must not depend on the ranks: up to so many ranks all have the same work.
constexpr int64_t kReproducibleShards = 8;

// Of rank 0, which waits for a disk, towards the others.
constexpr std::chrono::milliseconds kLongestSilence{50};

// Steps that a profile measures: none of the first ones of a run, in which memory grows and algorithms are
// chosen; on CUDA few, as they are not replayed.
constexpr int64_t kFirstMeasuredStep = 3;
constexpr int64_t kCudaMeasuredSteps = 10;

// The largest resident set of this process so far.
int64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

/// Makes the run folder, and holds it on rank 0.
std::optional<data::FolderLock> lock_folder(const Communicator& communicator, const std::string& folder) {
  if (communicator.rank() != 0) return std::nullopt;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(ExitCode::kCannotCreate, "the folder {} cannot be made: {}", folder, error.message());
  return std::make_optional<data::FolderLock>(folder);
}

}  // namespace

TrainOptions checked_options(const TrainOptions& options) {
  const auto require = [](bool holds, const char* option, const std::string& value, const char* allowed) {
    if (!holds) fail(ExitCode::kBadConfiguration, "{} is {}; it must be {}", option, value, allowed);
  };
  require(!options.corpus.empty(), "--corpus", "empty", "a corpus file");
  require(!options.model_dir.empty(), "--model-dir", "empty", "a folder");
  require(options.batch_source_tokens >= 1 && options.batch_source_tokens <= kMostTokens,
          "--batch-source-tokens", std::to_string(options.batch_source_tokens), "from 1 to 2147483647");
  require(options.batch_target_tokens >= 1 && options.batch_target_tokens <= kMostTokens,
          "--batch-target-tokens", std::to_string(options.batch_target_tokens), "from 1 to 2147483647");
  require(options.micro_batch_tokens >= 0, "--micro-batch-tokens", std::to_string(options.micro_batch_tokens),
          "0 or more");
  require(options.logical_shards >= 0, "--logical-shards", std::to_string(options.logical_shards),
          "0 or more");
  require(options.max_steps >= 0 && options.max_steps < (int64_t{1} << 32), "--max-steps",
          std::to_string(options.max_steps), "from 0 to 4294967295");
  require(options.log_every >= 1, "--log-every", std::to_string(options.log_every), "positive");
  require(options.keep_checkpoints >= 1, "--keep-checkpoints", std::to_string(options.keep_checkpoints),
          "positive");
  require(options.precision != DType::kF64, "--precision", "f64", "f32 or bf16");
  require(options.gradient_dtype != DType::kF64, "--gradient-dtype", "f64", "f32 or bf16");
  require(options.reduction == Reduction::kFast || options.gradient_dtype == DType::kF32, "--gradient-dtype",
          "bf16", "f32 with --reduction reproducible, which sums in f32");
  const std::string& metric = options.valid_metric;
  require(metric == "bleu" || metric == "chrf" || metric == "loss" || metric == "perplexity",
          "--valid-metric", metric, "bleu, chrf, loss or perplexity");
  require(options.valid_every == 0 || options.valid_bleu || metric != "bleu", "--valid-metric", metric,
          "chrf, loss or perplexity where --valid-bleu is off");
  require(options.valid_every == 0 || options.valid_chrf || metric != "chrf", "--valid-metric", metric,
          "bleu, loss or perplexity where --valid-chrf is off");
  require(options.ema >= 0.0 && options.ema < 1.0, "--ema", std::to_string(options.ema),
          "at least 0 and below 1");
  return options;
}

void complete_model(TransformerConfig& model, const TrainOptions& options, const data::Corpus& corpus) {
  model.vocab_size = corpus.tokenizer().vocab_size();
  if (options.begin_embedding == "zero") model.zero_word = corpus.tokenizer().begin_id();
  model.validate();
  if (corpus.max_length() >= model.max_positions) {
    fail(ExitCode::kBadConfiguration,
         "the longest sentence of {} has {} words; with its end mark it needs --max-positions {} or more, "
         "not {}",
         corpus.path(), corpus.max_length(), corpus.max_length() + 1, model.max_positions);
  }
}

/// Rows are a multiple of the tiles of matrix products on GPUs.
MicroBatchCapacity training_capacity(const data::BatchSource& batches) {
  constexpr int64_t kTileRows = 128;
  const auto padded = [](int64_t rows) { return (rows + kTileRows - 1) / kTileRows * kTileRows; };
  return {.source_rows = padded(batches.shard_source_capacity()),
          .target_rows = padded(batches.shard_target_capacity()),
          .sentences =
              static_cast<int>(std::min(batches.shard_source_capacity(), batches.shard_target_capacity()))};
}

MicroBatchCapacity model_capacity(const data::BatchSource& batches, const data::Corpus& corpus,
                                  Device device) {
  const MicroBatchCapacity training = training_capacity(batches);
  const MicroBatchCapacity validating = Validation::capacity(corpus, validation_rows_of(device));
  return {std::max(training.source_rows, validating.source_rows),
          std::max(training.target_rows, validating.target_rows),
          std::max(training.sentences, validating.sentences)};
}

int resolved_shards(const TrainOptions& options, const ResumePoint& from, int ranks, Device device) {
  if (options.logical_shards > 0) return options.logical_shards;
  if (from.logical_shards > 0) return from.logical_shards;
  const int64_t most = options.micro_batch_tokens > 0 ? options.micro_batch_tokens
                       : device == Device::kCpu       ? kCpuMicroBatchTokens
                                                      : kCudaMicroBatchTokens;
  const int64_t tokens = std::max(options.batch_source_tokens, options.batch_target_tokens);
  const int64_t least = (tokens + most - 1) / most;
  if (options.reduction == Reduction::kReproducible) {
    return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::max(least, kReproducibleShards))));
  }
  return static_cast<int>((least + ranks - 1) / ranks * ranks);
}

TrainingRun::TrainingRun(Context& context, Communicator& communicator, const TrainOptions& options,
                         const std::string& command, RunStatus* status)
    : context_(context),
      communicator_(communicator),
      options_(checked_options(options)),
      command_(command),
      status_(status),
      progress_(communicator.rank() == 0, options.max_steps),
      corpus_(options.corpus),
      folder_lock_(lock_folder(communicator, options_.model_dir)),
      resume_point_(
          find_resume_point(communicator, options_, folder_lock_ && folder_lock_->held(), progress_)),
      shards_(resolved_shards(options, resume_point_, communicator.size(), context.device())),
      batches_(corpus_.train(), {.source_tokens = options.batch_source_tokens,
                                 .target_tokens = options.batch_target_tokens,
                                 .shards = shards_,
                                 .seed = options.seed}),
      schedule_{options.learning_rate_scale, options.model.d_model, options.warmup_steps} {
  options_.logical_shards = shards_;
  complete_model(options_.model, options_, corpus_);
  check_same_run_on_all_ranks(communicator_, options_, corpus_);
  state_.corpus_digest = corpus_.digest();
  state_.resume_signature = resume_signature(options_);
  state_.valid_metric = options_.valid_metric;
  state_.logical_shards = shards_;

  make_model();
  last_checkpoint_ = resume_point_.path;
  resume(context_, communicator_, last_checkpoint_, options_, store_, *optimizer_, state_, progress_);
  if (!last_checkpoint_.empty()) {
    saved_step_ = state_.step;
    optimizer_->set_updates(state_.step - state_.skipped_steps);
    progress_.message(fmt::format("going on from {} at step {}", last_checkpoint_, state_.step));
  }
  describe_run();  // not before: a run that is refused leaves what describes the one it found
  if (communicator_.rank() == 0) {
    metrics_.emplace(options_.model_dir, last_checkpoint_.empty() ? -1 : state_.step,
                     validation_is_pending());
    saver_.emplace(context_, store_, static_cast<bool>(optimizer_->average()),
                   CheckpointSaver::Run{.model_dir = options_.model_dir,
                                        .config = options_.model,
                                        .tokenizer_model = corpus_.tokenizer().model(),
                                        .keep = options_.keep_checkpoints,
                                        .limit_seconds = options_.save_timeout});
  }
  if (status_ != nullptr) {
    status_->begin({options_.model_dir, host_name(), communicator_.rank(), communicator_.size()}, state_.step,
                   last_checkpoint_);
  }
  elapsed_before_ = state_.elapsed_seconds;
  first_step_ = state_.step;
  first_epoch_ = epochs();
  feed_.emplace(context_, corpus_, batches_, options_.model, training_capacity(batches_), step_->share(),
                BatchFeed::Start{state_.position, state_.step + 1});
  if (options_.profile) context_.profile().clear();
  progress_.message(fmt::format("{} parameters, {} sentence pairs, {}, batches of {} tokens in {}",
                                store_.parameter_count(), corpus_.train().size(),
                                counted(communicator_.size(), "rank"), options_.batch_target_tokens,
                                counted(shards_, "shard")));
  if (shards_ < communicator_.size()) {
    progress_.warning(fmt::format("{} of {} ranks have no work but validation: a batch has {}",
                                  communicator_.size() - shards_, communicator_.size(),
                                  counted(shards_, "logical shard")));
  }
  if (!validation_ && options_.valid_every > 0)
    progress_.warning("the corpus has no validation pairs; there is no validation");
  double asked = stop_requested() ? 1.0 : 0.0;  // while all this was made
  communicator_.all_reduce_sum({&asked, 1, 1, 1, DType::kF64});
  stop_ = asked > 0.0;
}

void TrainingRun::make_model() {
  ids_ = declare_transformer(options_.model, store_);
  store_.allocate(context_.device(), options_.precision, /*gradients=*/true);
  store_.initialize(context_, options_.seed);
  clear_zero_word(context_, options_.model, ids_, store_, store_.values());
  store_.refresh_compute_copy(context_);
  optimizer_.emplace(context_, store_, options_);
  transformer_.emplace(context_, options_.model, store_, ids_,
                       model_capacity(batches_, corpus_, context_.device()), /*training=*/true);
  reports_.emplace(context_);
  step_.emplace(context_, communicator_, options_, shards_, store_, *transformer_, *optimizer_);
  if (corpus_.valid().size() > 0)
    validation_.emplace(context_, communicator_, corpus_, options_, validation_rows_of(context_.device()));
}

void TrainingRun::describe_run() {
  if (communicator_.rank() != 0) return;
  write_file_atomically(options_.model_dir + "/config.json", to_json(options_) + "\n");
  write_file_atomically(options_.model_dir + "/command.txt", command_ + "\n");
}

bool TrainingRun::goes_on() const {
  return !stop_ && !out_of_time_ && state_.step < options_.max_steps &&
         (options_.max_epochs == 0 || state_.position.epoch < options_.max_epochs) &&
         (options_.patience == 0 || state_.validations_without_improvement < options_.patience);
}

data::GlobalBatch TrainingRun::begin_step() {
  if (saver_ && saver_->check()) record_save();
  step_begin_ = Clock::now();
  communicator_.set_step(++state_.step);
  if (status_ != nullptr) status_->reach(state_.step);
  if (measures_step()) context_.profile().begin_step();
  const ProfileRange range(context_, kBatchPhase);
  return feed_->next_step();
}

bool TrainingRun::measures_step() const {
  const int64_t later = state_.step - first_step_ - kFirstMeasuredStep;
  return options_.profile && later >= 0 &&
         (context_.device() == Device::kCpu || later % kCudaMeasuredSteps == 0);
}

void TrainingRun::compute_step(const data::GlobalBatch& batch) {
  last_learning_rate_ = schedule_.learning_rate(state_.step);
  const double flops = step_->enqueue(*feed_, last_learning_rate_);
  read_reports(StepReports::kMost - 1);
  reports_->request(
      *optimizer_,
      {.step = state_.step, .target_tokens = batch.target_tokens, .source_tokens = batch.source_tokens});
  agree_with_all_ranks(flops);
  if (context_.profile().measuring()) context_.profile().end_step();
}

void TrainingRun::agree_with_all_ranks(double flops) {
  const bool late = communicator_.rank() == 0 && options_.max_minutes > 0.0 &&
                    seconds_of_run() >= 60.0 * options_.max_minutes;
  double totals[3] = {stop_requested() ? 1.0 : 0.0, late ? 1.0 : 0.0, flops};
  communicator_.all_reduce_sum({totals, 1, 3, 3, DType::kF64});
  stop_ = totals[0] > 0.0;
  out_of_time_ = totals[1] > 0.0;
  flops_ += totals[2];
}

bool TrainingRun::validation_is_pending() const {
  return validation_ && options_.valid_every > 0 && state_.validation_pending != 0 && !stop_;
}

bool TrainingRun::validation_is_due() const {
  return validation_ && options_.valid_every > 0 && state_.step % options_.valid_every == 0;
}

void TrainingRun::exchange_with_average() {
  if (!optimizer_->average()) return;
  exchange(context_, {.a = store_.values(), .b = optimizer_->average()});
  store_.refresh_compute_copy(context_);
}

void TrainingRun::validate() {
  const Clock::time_point begin = Clock::now();
  exchange_with_average();
  const auto measured = validation_->run(*transformer_, store_, ids_, state_.step);
  exchange_with_average();
  validated_step_ = state_.step;
  const bool was_pending = state_.validation_pending != 0;
  state_.validation_pending = measured ? 0 : 1;
  if (!measured) {
    stop_ = true;
    progress_.message(fmt::format(
        "validation at step {} is abandoned for the stop; the next start makes up for it", state_.step));
    return;
  }
  const ValidationMetrics& metrics = *measured;
  const double metric = metrics.of(options_.valid_metric);
  const bool better = std::isfinite(metric) &&
                      (state_.best_step == 0 || is_better(options_.valid_metric, metric, state_.best_metric));
  if (better) {
    state_.best_metric = metric;
    state_.best_step = state_.step;
    state_.validations_without_improvement = 0;
  } else {
    ++state_.validations_without_improvement;
  }
  if (metrics_) metrics_->write(metrics);
  progress_.validation(metrics, better, std::chrono::duration<double>(Clock::now() - begin).count());
  if (better) {
    save(CheckpointSaver::Best{options_.valid_metric, metric});
  } else if (was_pending) {
    save();  // the checkpoint of this step says that its validation is pending
  }
}

bool TrainingRun::save_is_due() const {
  // The last state is saved by finish(), after its validation: a checkpoint of the last step tells a program
  // that is started again that nothing is left to do.
  return options_.save_every > 0 && state_.step % options_.save_every == 0 && saved_step_ != state_.step &&
         goes_on();
}

void TrainingRun::save(const std::optional<CheckpointSaver::Best>& best) {
  state_.elapsed_seconds = elapsed_before_ + seconds_of_run();
  check_ranks();  // a checkpoint is of a state on which all agree
  wait_for_save();
  std::string path;
  if (saver_) {
    path =
        saver_->save(state_, {.m = optimizer_->m(), .v = optimizer_->v(), .average = optimizer_->average()},
                     fmt::format("step {} of: {}", state_.step, command_), best);
  }
  last_checkpoint_ = communicator_.broadcast(path, 0);
  saved_step_ = state_.step;
}

void TrainingRun::wait_for_save() {
  for (double waits = 1.0; waits > 0.0;) {
    waits = saver_ && !saver_->wait(kLongestSilence) ? 1.0 : 0.0;
    communicator_.all_reduce_sum({&waits, 1, 1, 1, DType::kF64});
  }
  if (saver_ ? saver_->finish() : saved_step_ >= 0) record_save();
}

bool TrainingRun::settle() {
  return !saver_ || saver_->settle();
}

void TrainingRun::record_save() {
  if (status_ != nullptr) status_->saved(saved_step_, last_checkpoint_);
}

TrainResult TrainingRun::finish() {
  const bool early = stop_ && state_.step < options_.max_steps;
  const bool validates = validation_ && options_.valid_every > 0 && !early && state_.step > first_step_;
  if (validates && validated_step_ != state_.step) validate();
  const bool stopped = stop_ && (early || state_.validation_pending != 0);
  if (saved_step_ != state_.step) save();
  wait_for_save();
  progress_.message(fmt::format("{} at step {} after {}, saved in {}",
                                stopped ? "stopped on request" : "done", state_.step,
                                duration_text(state_.elapsed_seconds), last_checkpoint_));
  TrainResult result = {.end = stopped ? TrainEnd::kStoppedOnRequest : TrainEnd::kDone,
                        .step = state_.step,
                        .best_step = state_.best_step,
                        .best_metric = state_.best_metric,
                        .last_checkpoint = last_checkpoint_};
  if (whole_run_.seconds > 0.0) {
    result.target_tokens_per_second = static_cast<double>(whole_run_.target_tokens) / whole_run_.seconds;
    result.flops_per_second = flops_ / whole_run_.seconds;
  }
  double memory = static_cast<double>(peak_memory_bytes());
  communicator_.all_reduce_sum({&memory, 1, 1, 1, DType::kF64});
  result.peak_memory_bytes = static_cast<int64_t>(memory);
  progress_.message(
      fmt::format("{:.0f} target tokens/s, {:.1f} GFLOP/s of the model, peak memory {} MiB on {}",
                  result.target_tokens_per_second, 1e-9 * result.flops_per_second,
                  result.peak_memory_bytes >> 20, counted(communicator_.size(), "rank")));
  if (options_.profile) result.profile = train_profile(context_, step_->measured_flops(), options_.precision);
  return result;
}

}  // namespace ventris
