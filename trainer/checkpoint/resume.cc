// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/resume.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "backend/device/error.h"
#include "comm/communicator.h"
#include "data/error.h"
#include "data/io/file_format.h"
#include "data/io/file_io.h"
#include "data/io/hdf5_reader.h"
#include "data/io/json_text.h"
#include "data/io/temporary_name.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/mix_state.h"
#include "trainer/checkpoint/model_arrays.h"
#include "trainer/checkpoint/replica_check.h"
#include "trainer/checkpoint/resume_signature.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/json_text.h"
#include "trainer/observers/progress.h"
#include "trainer/run_environment.h"
#include "trainer/text.h"
#include "trainer/train_options_json.h"
#include "trainer/validation/validation_metric.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kSignature = "resume_signature";
constexpr std::string_view kDamaged = ".damaged";  // suffix of the name of a checkpoint that is set aside

int read_logical_shards(const data::Hdf5Reader& reader) {
  if (!reader.has_attribute("/", "logical_shards")) return 0;
  const int64_t shards = reader.int_attribute("/", "logical_shards");
  if (shards < 1 || shards > std::numeric_limits<int>::max())
    fail(ExitCode::kBadData, "{}: batches of {} logical shards; expected 1 or more", reader.path(), shards);
  return static_cast<int>(shards);
}

/// The resume point of a checkpoint, without ResumePoint::reader.
ResumePoint resume_point_in(const data::Hdf5Reader& reader) {
  ResumePoint point = {.path = reader.path()};
  point.logical_shards = read_logical_shards(reader);
  if (reader.has_attribute("/", kSignature)) {
    point.valid_metric = reader.string_attribute("/", "valid_metric");
    const std::string signature = reader.string_attribute("/", kSignature);
    point.precision = precision_named(option_in_signature(signature, "precision"));
    point.begin_embedding = option_in_signature(signature, "begin-embedding");
    point.tie = option_in_signature(signature, "tie");
  }
  if (reader.has_attribute("/", kMixAttribute)) {
    point.mix = reader.string_attribute("/", kMixAttribute);
    MixState mix;
    data::MixPosition position;
    read_mix_json(point.mix, point.path, mix, position);  // an error now
  }
  return point;
}

ResumePoint resume_point_of(const std::string& path) {
  auto reader = std::make_unique<data::Hdf5Reader>(path);
  ResumePoint point = resume_point_in(*reader);
  point.reader = std::move(reader);
  return point;
}

std::string diverged(const std::string& path, const std::string& fault) {
  return fmt::format("{}: there is {}: the run diverged, or the file was changed.", path, fault);
}

bool is_set_aside(const std::string& name) {
  return name.ends_with(kDamaged) && step_of_checkpoint(name.substr(0, name.size() - kDamaged.size())) >= 0;
}

/// Keeps only the checkpoints that this start set aside: a disk that damages files must not be filled by
/// them.
void remove_damaged_but(const std::vector<std::string>& kept, const std::string& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string path = entry.path().string();
    if (is_set_aside(path) && std::find(kept.begin(), kept.end(), path) == kept.end())
      fs::remove(path, error);
  }
}

/// Renames a checkpoint, so that it is not found again, and reports the reason. Returns its new path; "" if
/// it could not be renamed.
std::string set_aside(const std::string& path, const std::string& why, Progress& progress) {
  const std::string aside = path + std::string(kDamaged);
  std::error_code error;
  fs::rename(path, aside, error);
  progress.warning(
      fmt::format("{}. It is {}", without_full_stop(why), error ? "skipped" : "renamed to " + aside));
  return error ? "" : aside;
}

/// The newest of these that is one of ours, unchanged and with a sound state; others are set aside. If there
/// is none: the file from which the run begins, or no point if none was set aside.
ResumePoint newest_of(std::vector<std::string> checkpoints, const TrainOptions& options, Progress& progress) {
  ResumePoint point;
  std::vector<std::string> aside;
  std::string why;
  for (; point.path.empty() && !checkpoints.empty(); checkpoints.pop_back()) {
    const std::string& newest = checkpoints.back();
    try {
      ResumePoint found = resume_point_of(newest);
      const std::string fault = fault_in(*found.reader);
      if (fault.empty()) {
        point = std::move(found);
        continue;
      }
      why = diverged(newest, fault);
    } catch (const data::NewerFormat&) {
      throw;  // no damage
    } catch (const data::DataError& error) {
      if (error.kind() != data::ErrorKind::kBadData) throw;
      why = error.what();
    } catch (const Error& error) {  // of what we read in an attribute
      if (error.code() != ExitCode::kBadData) throw;
      why = error.what();
    }
    aside.push_back(set_aside(newest, why, progress));
  }
  if (point.path.empty() && options.resume != "auto") point = resume_point_of(options.resume);
  if (aside.empty()) return point;
  if (point.path.empty()) {
    fail(ExitCode::kBadData,
         "no checkpoint of {} can be read; the last error: {}. "
         "To start from the beginning, give another --model-dir",
         options.model_dir, without_full_stop(why));
  }
  remove_damaged_but(aside, options.model_dir);
  return point;
}

/// The step of the file, or of its name if it is gone or damaged: the run may still have later checkpoints.
int64_t step_in(const std::string& checkpoint) {
  const int64_t named = step_of_checkpoint(checkpoint);
  try {
    const data::Hdf5Reader reader(checkpoint);
    if (reader.has_attribute("/", "step")) return reader.int_attribute("/", "step");
  } catch (const data::DataError&) {
    if (named < 0) throw;
  }
  return named;
}

bool began_from_the_same(const TrainOptions& options) {
  if (!data::is_there(path_of_config(options.model_dir))) return false;
  try {
    return recorded_options(options.model_dir).resume == options.resume;
  } catch (const std::exception&) {  // changed options are not known either, and are reported
    return false;
  }
}

/// The checkpoints of the folder from which the run may resume: for a run that begins from a file those after
/// it, which belong to the run if its last start here also began from that file.
std::vector<std::string> own_checkpoints(const TrainOptions& options) {
  std::vector<std::string> checkpoints = list_checkpoints(options.model_dir);
  if (options.resume == "auto" || checkpoints.empty()) return checkpoints;
  if (!began_from_the_same(options)) return {};
  std::erase_if(checkpoints, [begin = step_in(options.resume)](const std::string& path) {
    return step_of_checkpoint(path) <= begin;
  });
  return checkpoints;
}

/// Ends a start whose checkpoint, found by itself, turned out to be unsound when its arrays were read: with a
/// code that tells whether the same command may do better.
[[noreturn]] void end_without(const std::string& path, const std::string& fault, const TrainOptions& options,
                              Progress& progress) {
  const std::string aside = set_aside(path, diverged(path, fault), progress);
  const std::string what = fmt::format("{} cannot be resumed from: there is {}", path, fault);
  if (aside.empty())
    fail(ExitCode::kIo, "{}, and it cannot be renamed. Move it out of the folder, then start again", what);
  if (options.resume == "auto" && list_checkpoints(options.model_dir).empty()) {
    fail(ExitCode::kBadData,
         "{}, and there is no earlier checkpoint. To start from the beginning, remove {}, or give another "
         "--model-dir",
         what, aside);
  }
  fail(ExitCode::kUnavailable, "{}. Start the same command again: it resumes from the checkpoint before it",
       what);
}

/// Checkpoints of a later version would be removed one by one as new ones are saved. The newest is checked
/// when it is read.
void refuse_newer_checkpoints(const TrainOptions& options) {
  std::vector<std::string> checkpoints = list_checkpoints(options.model_dir);
  if (options.resume == "auto" && !checkpoints.empty()) checkpoints.pop_back();
  for (const std::string& path : checkpoints) data::refuse_newer_file(path);
}

/// On rank 0.
ResumePoint find_checkpoint(const TrainOptions& options, Progress& progress) {
  if (options.resume == "never") {
    const std::vector<std::string> checkpoints = list_checkpoints(options.model_dir);
    if (!checkpoints.empty()) {
      fail(ExitCode::kBadConfiguration,
           "{} holds {} checkpoints of an earlier run, the newest {}. "
           "Resume from it with --resume auto, or give another --model-dir",
           options.model_dir, checkpoints.size(), checkpoints.back());
    }
    return {};
  }
  refuse_newer_checkpoints(options);
  ResumePoint point = newest_of(own_checkpoints(options), options, progress);
  if (!point.path.empty() || !data::is_folder(options.model_dir)) return point;
  for (const fs::directory_entry& entry : fs::directory_iterator(options.model_dir)) {
    const std::string name = entry.path().filename().string();
    if (!is_set_aside(name)) continue;
    fail(ExitCode::kBadData,
         "{} holds only damaged checkpoints of an earlier run, such as {}. "
         "To start from the beginning, remove them, or give another --model-dir",
         options.model_dir, name);
  }
  return {};
}

/// A file given by name may be anywhere, but the folder must not have a later state of the run, which "auto"
/// would use next time.
void check_nothing_newer(const TrainOptions& options, const std::string& path, int64_t step) {
  for (const std::string& other : list_checkpoints(options.model_dir)) {
    if (step_of_checkpoint(other) <= step) continue;
    if (step_of_checkpoint(path) > step && fs::path(path).parent_path() == fs::path(other).parent_path()) {
      fail(ExitCode::kBadConfiguration,
           "{} holds step {}, not that of its name: is it a copy? Move it out of the folder, "
           "or give it the name of its step",
           path, step);
    }
    fail(ExitCode::kBadConfiguration,
         "{} is newer than {}, from which the run is to resume. "
         "Move the newer one out of the folder, or give another --model-dir",
         other, path);
  }
}

/// The best checkpoint may have been set aside: then the previous best is used again. Or the run ended after
/// it wrote the best and before it recorded that.
void restore_best(const TrainOptions& options, const TrainingState& state) {
  const std::string best = path_of_checkpoint(options.model_dir, state.best_step);
  if (state.best_step == 0 || read_best(options.model_dir) == best || !data::is_there(best)) return;
  write_best(options.model_dir, {.checkpoint = best,
                                 .metric = metric_of(state.valid_metric),
                                 .value = state.best_metric,
                                 .signature = signature_of_metric(options)});
}

/// For a run that moved to another folder, or whose best checkpoint was removed: otherwise no checkpoint
/// would be kept until one is better than the missing one.
void forget_lost_best(const TrainOptions& options, TrainingState& state, Progress& progress) {
  if (state.best_step == 0 || options.valid_every == 0 ||
      data::is_there(path_of_checkpoint(options.model_dir, state.best_step)))
    return;
  progress.warning(fmt::format(
      "the best checkpoint, of step {} ({} {:.4g}), is not in {}: the search for the best starts again",
      state.best_step, state.valid_metric, state.best_metric, options.model_dir));
  state.best_step = 0;  // not best_due_step: what comes later must not depend on files
}

/// Removes half-written files of earlier processes of the run.
void remove_leftovers(const TrainOptions& options, bool alone, Progress& progress) {
  const std::vector<std::string> removed =
      data::remove_abandoned_files(options.model_dir, is_name_of_run_file, alone);
  for (const std::string& path : removed) {
    progress.message(fmt::format("removed {}, left incomplete by a process that has ended", path));
  }
}

void load_on_first_rank(Context& context, const data::Hdf5Reader& reader, const TrainOptions& options,
                        ParameterStore& store, const OptimizerState& optimizer, TrainingState& state,
                        Progress& progress) {
  const std::string& path = reader.path();
  // Before anything is loaded, so that the message names the option. A file of another kind has none; loading
  // reports that.
  if (reader.has_attribute("/", kSignature)) {
    check_same_signature(path, reader.string_attribute("/", kSignature), state.resume_signature);
  }
  TrainingState loaded;
  load_checkpoint(context, reader, options.model, store, optimizer, loaded);
  if (loaded.corpus_digest != state.corpus_digest) {
    fail(
        ExitCode::kBadConfiguration,
        "{} was written with a corpus of digest {}, but this run has {}. Give the same corpus, or begin a run "
        "with the new one from these parameters: --init {} and another --model-dir (--init-vocabulary extend "
        "if it has other tokens)",
        path, loaded.corpus_digest, state.corpus_digest, path);
  }
  check_nothing_newer(options, path, loaded.step);
  // Without validations there is nothing to compare with the best.
  const std::string metric =
      options.valid_every > 0 || loaded.valid_metric.empty() ? state.valid_metric : loaded.valid_metric;
  if (loaded.best_step > 0 && !loaded.valid_metric.empty() && loaded.valid_metric != metric) {
    progress.warning(fmt::format(
        "validations were compared by {} and now by {}: the search for the best checkpoint starts again",
        loaded.valid_metric, metric));
    loaded.best_step = loaded.best_due_step = 0;
    loaded.validations_without_improvement = 0;
    loaded.plateau_best_step = loaded.plateau_validations = 0;
  }
  loaded.valid_metric = metric;
  if (options.schedule.kind != ScheduleKind::kPlateau) {  // a later plateau begins at its peak
    loaded.plateau_factor = 1.0;
    loaded.plateau_best_step = loaded.plateau_validations = 0;
  }
  forget_lost_best(options, loaded, progress);
  const std::string changes = environment_changes(loaded.environment, state.environment);
  if (!changes.empty()) {
    progress.warning(
        fmt::format("{} was computed with other libraries or instructions: {}. "
                    "The last bits of the next steps may differ from those computed there",
                    path, changes));
  }
  loaded.environment = state.environment;
  loaded.mix.plan = state.mix.plan;
  restore_best(options, loaded);
  state = loaded;
}

constexpr const char* kSignatureOfScores = "valid_signature";

void copy_state_from_first_rank(Communicator& communicator, TrainingState& state) {
  Json mine;
  for_each_number(state, [&](const char* name, const auto& number) { mine[name] = number; });
  mine[kMixAttribute] = mix_json(state.mix, state.position.mix);
  mine[kSignatureOfScores] = state.valid_signature;
  const Json first = data::read_json(communicator.broadcast(json_text(mine), 0));
  for_each_number(state, [&](const char* name, auto& number) { first.at(name).get_to(number); });
  first.at(kSignatureOfScores).get_to(state.valid_signature);
  const auto mix = first.at(kMixAttribute).get<std::string>();
  if (!mix.empty()) read_mix_json(mix, "rank 0", state.mix, state.position.mix);
}

}  // namespace

ResumePoint find_resume_point(Communicator& communicator, const TrainOptions& options, bool alone,
                              Progress& progress) {
  ResumePoint point;
  if (communicator.rank() == 0) {
    remove_leftovers(options, alone, progress);
    static_cast<void>(read_best(options.model_dir));  // an error now, not at the first save
    point = find_checkpoint(options, progress);
  }
  point.path = communicator.broadcast(point.path, 0);
  point.logical_shards = std::stoi(communicator.broadcast(std::to_string(point.logical_shards), 0));
  point.valid_metric = communicator.broadcast(point.valid_metric, 0);
  point.precision = precision_named(communicator.broadcast(name_of(point.precision), 0));
  point.begin_embedding = communicator.broadcast(point.begin_embedding, 0);
  point.tie = communicator.broadcast(point.tie, 0);
  point.mix = communicator.broadcast(point.mix, 0);
  return point;
}

void resume(Context& context, Communicator& communicator, ResumePoint& point, const TrainOptions& options,
            ParameterStore& store, Optimizer& optimizer, TrainingState& state, Progress& progress) {
  const WholeOptimizerState whole(communicator, store, optimizer);
  if (point.reader) {
    try {
      load_on_first_rank(context, *point.reader, options, store, whole.get(), state, progress);
    } catch (const UnsoundState& error) {
      if (point.path == options.resume) throw;
      end_without(point.path, error.fault(), options, progress);
    }
  }
  point.reader.reset();
  copy_from_rank(context, communicator, 0, store.values());
  if (!point.path.empty()) {
    whole.distribute_moments(context, communicator, optimizer);
    whole.distribute_average(context, communicator, optimizer);
    copy_state_from_first_rank(communicator, state);
  } else {
    optimizer.start_average();
  }
  store.refresh_compute_copy(context);
}

void check_resume_point(const data::Hdf5Reader& reader) {
  static_cast<void>(resume_point_in(reader));
  check_checkpoint(reader);
}

}  // namespace ventris
