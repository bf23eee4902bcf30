// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/replay.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "backend/error.h"
#include "comm/communicator.h"
#include "data/files/atomic_file.h"
#include "data/files/file_io.h"
#include "data/files/hdf5_reader.h"
#include "data/files/json_text.h"
#include "data/files/temporary_name.h"
#include "trainer/files/json_number.h"
#include "trainer/files/json_text.h"
#include "trainer/files/parameter_digest.h"
#include "trainer/files/rollbacks.h"
#include "trainer/files/run_folder.h"
#include "trainer/metrics.h"
#include "trainer/recorded_stages.h"
#include "trainer/schedule_options.h"
#include "trainer/train_options_json.h"
#include "trainer/training_run.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string folder_of(const std::string& checkpoint) {
  const fs::path folder = fs::path(checkpoint).parent_path();
  return folder.empty() ? "." : folder.string();
}

/// A folder of this process that is removed with the object or, if the process is killed, by the next one.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::error_code error;
    const fs::path folder = fs::temp_directory_path(error);
    if (error) {
      const char* const given = std::getenv("TMPDIR");
      fail(ExitCode::kCannotCreate, "{}, which TMPDIR names, is not a folder: {}",
           given != nullptr ? given : "/tmp", error.message());
    }
    const std::string name = (folder / "ventris-replay").string();
    data::remove_abandoned(name);
    path_ = data::temporary_name(name);
    if (::mkdir(path_.c_str(), 0700) != 0) {
      fail(ExitCode::kCannotCreate, "cannot create {}: {}; TMPDIR names the folder for it", path_,
           std::strerror(errno));
    }
    opened_ = data::open_to_read(path_);
    data::mark_as_being_written(opened_.fd());
  }
  ~ScratchFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  data::FileHandle opened_;
};

/// The recorded digests of the parameters in the run folder, by step.
struct RunRecord {
  int64_t begin = 0;  // the step of the checkpoint
  std::map<int64_t, std::vector<RecordedDigest>> digests;
  std::map<int64_t, double> plateau_factors;  // from these steps on

  int64_t last() const { return digests.empty() ? begin : digests.rbegin()->first; }
};

void add_metrics(const std::string& folder, RunRecord& record) {
  const fs::path path = fs::path(folder) / "metrics.jsonl";
  std::error_code not_there;
  if (!fs::is_regular_file(path, not_there)) return;  // a pipe would block
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const Json object = data::try_json(line);
    refuse_newer_format(object, path.string());
    int64_t step = 0;
    if (object.is_object() && text_in(object, "event") == kPlateauEvent && object.contains("step") &&
        object.contains("factor") && read_number(object["step"], step))
      static_cast<void>(read_number(object["factor"], record.plateau_factors[step]));
    const bool tells = object.is_object() && object.contains("digest") && object["digest"].is_string() &&
                       object.contains("step") && read_number(object["step"], step);
    if (!tells) continue;
    record.digests[step].push_back({"metrics.jsonl", object["digest"].get<std::string>()});
  }
}

void add_checkpoints(const std::string& folder, RunRecord& record) {
  for (const std::string& path : list_checkpoints(folder)) {
    const data::Hdf5Reader reader(path);
    if (!reader.has_attribute("/", kDigestAttribute)) continue;  // of an older version
    record.digests[step_of_checkpoint(path)].push_back(
        {fs::path(path).filename().string(), reader.string_attribute("/", kDigestAttribute)});
  }
}

RunRecord read_record(const std::string& checkpoint, int64_t steps) {
  RunRecord record;
  {
    const data::Hdf5Reader reader(checkpoint);
    if (!reader.has_attribute("/", "step")) {
      fail(ExitCode::kBadData, "{}: is not a checkpoint of a training run; expected a checkpoint-*.h5",
           checkpoint);
    }
    record.begin = reader.int_attribute("/", "step");
  }
  const std::string folder = folder_of(checkpoint);
  add_metrics(folder, record);
  add_checkpoints(folder, record);
  record.digests.erase(record.digests.begin(), record.digests.upper_bound(record.begin));
  if (steps > 0) record.digests.erase(record.digests.upper_bound(record.begin + steps), record.digests.end());
  if (record.digests.empty()) {
    fail(ExitCode::kMissingInput,
         "{} has no digest to compare with: neither one in metrics.jsonl nor a checkpoint of {} after step "
         "{}. Train with --digest-every, or replay from an earlier checkpoint",
         folder, steps > 0 ? fmt::format("the {} steps", steps) : "a step", record.begin);
  }
  return record;
}

std::string to_text(const RunRecord& record) {
  Json digests = Json::array();
  for (const auto& [step, recorded] : record.digests) {
    for (const RecordedDigest& one : recorded) digests.push_back({step, one.origin, one.digest});
  }
  Json factors = Json::array();
  for (const auto& [step, factor] : record.plateau_factors) factors.push_back({step, factor});
  return data::utf8_json_text(
      Json{{"begin", record.begin}, {"digests", digests}, {"plateau_factors", factors}});
}

RunRecord record_of_text(const std::string& text) {
  const Json object = data::read_json(text);
  RunRecord record;
  record.begin = object.at("begin").get<int64_t>();
  for (const Json& one : object.at("digests")) {
    record.digests[one.at(0).get<int64_t>()].push_back(
        {one.at(1).get<std::string>(), one.at(2).get<std::string>()});
  }
  for (const Json& one : object.at("plateau_factors"))
    record.plateau_factors[one.at(0).get<int64_t>()] = one.at(1).get<double>();
  return record;
}

/// The rates of the steps depend on them.
void copy_rollbacks(const std::string& from, const std::string& to) {
  std::vector<Rollback> rollbacks = read_rollbacks(from);
  for (Rollback& rollback : rollbacks) rollback.pending = false;
  if (!rollbacks.empty()) write_rollbacks(to, rollbacks);
}

/// The options of the run, without those that end or interrupt it or write files.
TrainOptions replay_options(const TrainOptions& run, const std::string& checkpoint, int64_t last_step) {
  TrainOptions options = run;
  options.resume = checkpoint;
  options.schedule = schedule_of(run).options;  // whose end may be that of the run
  options.max_steps = last_step;
  options.max_epochs = 0;
  options.max_minutes = 0.0;
  options.patience = 0;
  options.valid_target = 0.0;
  if (run.schedule.kind == ScheduleKind::kPlateau) {
    options.valid_every = last_step + 1;  // none: the rate drops where it did
  } else {
    options.valid_every = 0;
  }
  options.valid_tokenize = "13a";  // the file of another may be gone
  options.valid_tokenize_with.clear();
  options.valid_sets.clear();
  options.valid_best.clear();
  options.valid_script.clear();
  options.best = "better";
  options.spikes.on = "ignore";
  options.save_every = 0;
  options.log_every = std::max<int64_t>(last_step, 1);
  options.digest_every = 0;
  options.tensorboard = false;
  options.check_ranks_every = 0;
  options.profile = false;
  return options;
}

}  // namespace

bool ReplayedStep::agrees() const {
  return std::all_of(recorded.begin(), recorded.end(),
                     [this](const RecordedDigest& one) { return one.digest == digest; });
}

RecordedRun recorded_run(Communicator& communicator, const std::string& checkpoint) {
  const std::string path = path_of_config(folder_of(checkpoint));
  std::string text;
  if (communicator.rank() == 0) {
    if (!data::is_there(path)) {
      fail(ExitCode::kMissingInput,
           "there is no {}; expected the checkpoint in its run folder, beside the config.json of the run",
           path);
    }
    const std::vector<uint8_t> bytes = data::read_file(path, data::kMaxTextBytes);
    text.assign(bytes.begin(), bytes.end());
  }
  text = communicator.broadcast(text, 0);
  RecordedRun run{.options = train_options_from_json(text, path), .kernels = ""};
  const Json object = parse_json(text);
  if (const Json kernels = object.value("/environment/kernels"_json_pointer, Json()); kernels.is_string())
    run.kernels = kernels.get<std::string>();
  return run;
}

void replay(Context& context, Communicator& communicator, const TrainOptions& run,
            const std::string& checkpoint, int64_t steps, const std::string& command,
            const std::function<void(const ReplayedStep&)>& each) {
  const bool first = communicator.rank() == 0;
  const RunRecord record =
      record_of_text(communicator.broadcast(first ? to_text(read_record(checkpoint, steps)) : "", 0));
  std::optional<ScratchFolder> scratch;
  if (first) scratch.emplace();
  TrainOptions options = replay_options(run, checkpoint, record.last());
  options.model_dir = communicator.broadcast(scratch ? scratch->path() : "", 0);
  if (first) copy_rollbacks(folder_of(checkpoint), options.model_dir);
  if (!run.mix.empty()) {
    const auto stages = [&] {  // as the run ended them: its validations are not repeated
      return data::to_text(plan_as_it_was(recorded_stages(folder_of(checkpoint), run.mix).mix));
    };
    options.mix = communicator.broadcast(first ? stages() : "", 0);
  }
  TrainingProcess process;
  TrainingRun again(context, communicator, options, command, nullptr, process);
  const auto take_plateau_factor = [&] {
    const auto found = record.plateau_factors.find(again.step());
    if (found != record.plateau_factors.end()) again.set_plateau_factor(found->second);
  };
  take_plateau_factor();
  while (again.goes_on()) {
    const data::GlobalBatch batch = again.begin_step();
    again.compute_step(batch);
    again.complete_step(batch);
    take_plateau_factor();
    const auto recorded = record.digests.find(again.step());
    if (recorded == record.digests.end()) continue;
    each({.step = again.step(), .digest = again.digest(), .recorded = recorded->second});
  }
}

}  // namespace ventris
