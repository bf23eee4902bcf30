#include "trainer/resume.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "backend/error.h"
#include "comm/communicator.h"
#include "data/error.h"
#include "data/file_io.h"
#include "data/hdf5_file.h"
#include "data/temporary_name.h"
#include "trainer/json_text.h"
#include "trainer/progress.h"
#include "trainer/replicas.h"
#include "trainer/resume_signature.h"
#include "trainer/run_environment.h"
#include "trainer/run_folder.h"
#include "trainer/sound_state.h"
#include "trainer/validation_metric.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kDamaged = ".damaged";  // behind the name of a checkpoint that is set aside

int read_logical_shards(const data::Hdf5Reader& reader) {
  if (!reader.has_attribute("/", "logical_shards")) return 0;
  const int64_t shards = reader.int_attribute("/", "logical_shards");
  if (shards < 1 || shards > std::numeric_limits<int>::max())
    fail(ExitCode::kBadData, "{}: batches of {} logical shards; expected 1 or more", reader.path(), shards);
  return static_cast<int>(shards);
}

/// Checkpoints that do not tell are from when BLEU was the metric unless another was given.
std::string read_valid_metric(const data::Hdf5Reader& reader) {
  return reader.has_attribute("/", "valid_metric") ? reader.string_attribute("/", "valid_metric") : "bleu";
}

ResumePoint resume_point_of(const std::string& path, const data::Hdf5Reader& reader) {
  return {path, read_logical_shards(reader), read_valid_metric(reader)};
}

/// True if the file is one of ours, as it was written, of a sound state; then with what it tells.
bool is_sound(ResumePoint& point, std::string& why) {
  try {
    const data::Hdf5Reader reader(point.path);
    point = resume_point_of(point.path, reader);
    const std::string fault = fault_in(reader);
    if (fault.empty()) return true;
    why = fmt::format("{}: there is {}: the run had diverged, or the file was changed.", point.path, fault);
    return false;
  } catch (const data::DataError& error) {
    if (error.kind() != data::ErrorKind::kBadData) throw;
    why = error.what();
    return false;
  }
}

bool is_set_aside(const std::string& name) {
  return name.ends_with(kDamaged) && step_of_checkpoint(name.substr(0, name.size() - kDamaged.size())) >= 0;
}

/// Keeps of all checkpoints that were ever set aside those of this start alone: a disk that damages files is
/// not to be filled by them too.
void remove_damaged_but(const std::vector<std::string>& kept, const std::string& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string path = entry.path().string();
    if (is_set_aside(path) && std::find(kept.begin(), kept.end(), path) == kept.end())
      fs::remove(path, error);
  }
}

/// Of rank 0.
ResumePoint find_checkpoint(const TrainOptions& options, Progress& progress) {
  std::vector<std::string> checkpoints = list_checkpoints(options.model_dir);
  if (options.resume == "never") {
    if (!checkpoints.empty()) {
      fail(ExitCode::kBadConfiguration,
           "{} holds {} checkpoints of an earlier run, the newest {}. Go on from it with --resume auto, or "
           "give another "
           "--model-dir",
           options.model_dir, checkpoints.size(), checkpoints.back());
    }
    return {};
  }
  if (options.resume != "auto") return resume_point_of(options.resume, data::Hdf5Reader(options.resume));
  std::string why;
  std::vector<std::string> damaged;
  for (; !checkpoints.empty(); checkpoints.pop_back()) {
    const std::string& newest = checkpoints.back();
    ResumePoint point = {newest};
    if (is_sound(point, why)) {
      if (!damaged.empty()) remove_damaged_but(damaged, options.model_dir);
      return point;
    }
    const std::string aside = newest + std::string(kDamaged);
    std::error_code error;
    fs::rename(newest, aside, error);
    damaged.push_back(aside);
    progress.warning(fmt::format("{} It is {} and the checkpoint before it is tried", why,
                                 error ? "passed over" : "renamed to " + aside));
  }
  if (!why.empty()) {
    fail(ExitCode::kBadData,
         "no checkpoint of {} can be read; the last error: {}. To start anew give another --model-dir",
         options.model_dir, why);
  }
  if (!data::is_folder(options.model_dir)) return {};
  for (const fs::directory_entry& entry : fs::directory_iterator(options.model_dir)) {
    const std::string name = entry.path().filename().string();
    if (!is_set_aside(name)) continue;
    fail(ExitCode::kBadData,
         "{} holds damaged checkpoints of an earlier run and no other, such as {}. To start anew remove "
         "them, or "
         "give another --model-dir",
         options.model_dir, name);
  }
  return {};
}

/// A file given by name may lie anywhere, but the folder must not hold a later state of the run, which "auto"
/// would take next time.
void check_nothing_newer(const TrainOptions& options, const std::string& path, int64_t step) {
  for (const std::string& other : list_checkpoints(options.model_dir)) {
    if (step_of_checkpoint(other) <= step) continue;
    if (step_of_checkpoint(path) > step && fs::path(path).parent_path() == fs::path(other).parent_path()) {
      fail(ExitCode::kBadConfiguration,
           "{} holds step {}, not that of its name, as a copy under another name does. Move it out of the "
           "folder, or give it the name of its step",
           path, step);
    }
    fail(ExitCode::kBadConfiguration,
         "{} is newer than {}, from which the run is to go on. Move the newer one out of the folder, or give "
         "another --model-dir",
         other, path);
  }
}

/// The best checkpoint may be among those that were set aside: then the best before it counts again. Or the
/// run ended after it wrote the best and before it recorded that.
void restore_best(const TrainOptions& options, const TrainingState& state) {
  const std::string best = path_of_checkpoint(options.model_dir, state.best_step);
  if (state.best_step == 0 || read_best(options.model_dir) == best || !data::is_there(best)) return;
  write_best(options.model_dir, best, options.valid_metric, state.best_metric);
}

/// Removes what earlier processes of the run left half-written.
void remove_leftovers(const TrainOptions& options, bool alone, Progress& progress) {
  const std::vector<std::string> removed =
      data::remove_abandoned_files(options.model_dir, is_name_of_run_file, alone);
  for (const std::string& path : removed) {
    progress.message(fmt::format("removed {}, which a process that is gone left half-written", path));
  }
}

void load_on_first_rank(Context& context, const std::string& path, const TrainOptions& options,
                        ParameterStore& store, Optimizer& optimizer, TrainingState& state,
                        Progress& progress) {
  {
    const data::Hdf5Reader reader(path);
    // Before anything is loaded, so that the message names the option. A file of another kind has none;
    // loading says so.
    if (reader.has_attribute("/", "resume_signature")) {
      check_same_signature(path, reader.string_attribute("/", "resume_signature"), state.resume_signature);
    }
  }
  TrainingState loaded;
  load_checkpoint(context, path, options.model, store,
                  {.m = optimizer.m(), .v = optimizer.v(), .average = optimizer.average()}, loaded);
  if (loaded.corpus_digest != state.corpus_digest) {
    refuse_other_option(path, "a corpus of digest", loaded.corpus_digest, state.corpus_digest);
  }
  check_nothing_newer(options, path, loaded.step);
  const std::string metric = recorded_metric(options);
  if (loaded.best_step > 0 && !loaded.valid_metric.empty() && loaded.valid_metric != metric) {
    progress.warning(fmt::format("--valid-metric was {} and is {}: the best checkpoint is looked for anew",
                                 loaded.valid_metric, metric));
    loaded.best_step = 0;
    loaded.validations_without_improvement = 0;
  }
  loaded.valid_metric = metric;
  const std::string changes = environment_changes(loaded.environment, state.environment);
  if (!changes.empty()) {
    progress.warning(
        fmt::format("{} was computed with other libraries or instructions: {}. Steps from here on may differ "
                    "in last bits "
                    "from those that would have followed there",
                    path, changes));
  }
  loaded.environment = state.environment;
  restore_best(options, loaded);
  state = loaded;
}

void copy_state_from_first_rank(Communicator& communicator, TrainingState& state) {
  Json mine;
  for_each_number(state, [&](const char* name, const auto& number) { mine[name] = number; });
  const Json first = Json::parse(communicator.broadcast(json_text(mine), 0));
  for_each_number(state, [&](const char* name, auto& number) { first.at(name).get_to(number); });
}

}  // namespace

ResumePoint find_resume_point(Communicator& communicator, const TrainOptions& options, bool alone,
                              Progress& progress) {
  ResumePoint point;
  if (communicator.rank() == 0) {
    remove_leftovers(options, alone, progress);
    static_cast<void>(read_best(options.model_dir));  // a bad one now, not at the first save
    point = find_checkpoint(options, progress);
  }
  point.path = communicator.broadcast(point.path, 0);
  point.logical_shards = std::stoi(communicator.broadcast(std::to_string(point.logical_shards), 0));
  point.valid_metric = communicator.broadcast(point.valid_metric, 0);
  return point;
}

void resume(Context& context, Communicator& communicator, const std::string& path,
            const TrainOptions& options, ParameterStore& store, Optimizer& optimizer, TrainingState& state,
            Progress& progress) {
  if (communicator.rank() == 0 && !path.empty())
    load_on_first_rank(context, path, options, store, optimizer, state, progress);
  copy_from_rank(context, communicator, 0, store.values());
  if (!path.empty()) {
    copy_from_rank(context, communicator, 0, optimizer.m());
    copy_from_rank(context, communicator, 0, optimizer.v());
    if (optimizer.average()) copy_from_rank(context, communicator, 0, optimizer.average());
    copy_state_from_first_rank(communicator, state);
  } else {
    optimizer.start_average();
  }
  store.refresh_compute_copy(context);
}

}  // namespace ventris
