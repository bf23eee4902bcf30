// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <filesystem>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <type_traits>

#include "backend/device/dtype.h"
#include "data/corpus.h"
#include "data/error.h"
#include "data/io/atomic_file.h"
#include "data/io/element_type.h"
#include "data/io/file_format.h"
#include "data/io/file_io.h"
#include "data/io/hdf5_reader.h"
#include "data/io/safetensors.h"
#include "launch/command.h"
#include "launch/commands/step_pairs.h"
#include "launch/job.h"
#include "launch/output.h"
#include "launch/pages/run_record.h"
#include "trainer/checkpoint/parameter_digest.h"
#include "trainer/checkpoint/resume.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/checkpoint/weights.h"
#include "trainer/exchange/probe.h"
#include "trainer/json_text.h"
#include "trainer/observers/run_status.h"
#include "trainer/text.h"

namespace ventris {

namespace {

using data::ElementType;

/// Tolerance of logits between machines, whose sums differ in order.
constexpr double kProbeTolerance = 1e-3;

struct InspectCommandOptions {
  std::vector<std::string> files;
  StepPairsRequest pairs;
  bool verify = false;
  bool json = false;
};

struct Dataset {
  std::string name;
  ElementType type;
  std::vector<int64_t> dimensions;
  int64_t elements = 0;
  int64_t not_finite = 0;
  double min = std::numeric_limits<double>::infinity();  // of the finite elements
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0.0;
};

/// The properties of a file.
struct Contents {
  std::string path;
  std::string digest;
  std::string config;            // of a model, otherwise empty
  std::string parameter_digest;  // the same, or ""
  std::vector<Dataset> datasets;
  bool is_corpus = false;
};

/// The type to which elements of files are converted for arithmetic.
template <typename T>
using Readable = std::conditional_t<std::is_same_v<T, BF16>, float, T>;

template <typename T>
void add_statistics(const T* values, size_t count, Dataset& dataset) {
  for (size_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(Readable<T>(values[i]));
    if (!std::isfinite(value)) {
      ++dataset.not_finite;
      continue;
    }
    dataset.min = std::min(dataset.min, value);
    dataset.max = std::max(dataset.max, value);
    dataset.sum += value;
  }
}

// Reads the elements in pieces, so that memory does not grow with the file.
template <typename T>
void add_statistics(const data::Hdf5Reader& reader, Dataset& dataset) {
  std::vector<T> piece(size_t{1} << 16);
  int64_t at = reader.file_offset(dataset.name);
  for (int64_t left = dataset.elements; left > 0;) {
    const auto count = static_cast<size_t>(std::min<int64_t>(left, std::ssize(piece)));
    reader.read_bytes_at(at, piece.data(), static_cast<int64_t>(count * sizeof(T)));
    at += static_cast<int64_t>(count * sizeof(T));
    add_statistics(piece.data(), count, dataset);
    left -= static_cast<int64_t>(count);
  }
}

/// `with_data`: also its minimum, maximum and mean.
Dataset read_dataset(const data::Hdf5Reader& reader, const std::string& name, bool with_data) {
  Dataset dataset;
  dataset.name = name;
  dataset.type = reader.type(name);
  dataset.dimensions = reader.dimensions(name);
  dataset.elements =
      std::accumulate(dataset.dimensions.begin(), dataset.dimensions.end(), int64_t{1}, std::multiplies<>());
  if (dataset.elements == 0 || !with_data) return dataset;
  switch (dataset.type) {
    case ElementType::kF32:
      add_statistics<float>(reader, dataset);
      break;
    case ElementType::kF64:
      add_statistics<double>(reader, dataset);
      break;
    case ElementType::kI32:
      add_statistics<int32_t>(reader, dataset);
      break;
    case ElementType::kI64:
      add_statistics<int64_t>(reader, dataset);
      break;
    case ElementType::kU8:
      add_statistics<uint8_t>(reader, dataset);
      break;
    case ElementType::kI8:
      add_statistics<int8_t>(reader, dataset);
      break;
    case ElementType::kBF16:
      add_statistics<BF16>(reader, dataset);
      break;
    case ElementType::kU16:
      add_statistics<uint16_t>(reader, dataset);
      break;
  }
  return dataset;
}

int64_t parameters_of(const std::vector<Dataset>& datasets) {
  int64_t parameters = 0;
  for (const Dataset& dataset : datasets) {
    // The parameters of a safetensors file are all tensors except bytes and scales.
    const bool of_model = dataset.name.starts_with("/model/") ||
                          (!dataset.name.starts_with("/") && !dataset.name.starts_with("scales/") &&
                           dataset.type != ElementType::kU8);
    if (of_model) parameters += dataset.elements;
  }
  return parameters;
}

double mean_of(const Dataset& dataset) {
  const int64_t finite = dataset.elements - dataset.not_finite;
  return finite > 0 ? dataset.sum / static_cast<double>(finite) : 0.0;
}

std::string contents_text(const std::string& path, const std::string& digest,
                          const std::vector<Dataset>& datasets) {
  size_t width = 7;
  for (const Dataset& dataset : datasets) width = std::max(width, dataset.name.size());
  std::string text = fmt::format("{}: digest {}\n{:<{}}  type  {:<16}{:>13}{:>13}{:>13}\n", path, digest,
                                 "dataset", width, "shape", "min", "max", "mean");
  for (const Dataset& dataset : datasets) {
    const std::string shape = fmt::format("[{}]", fmt::join(dataset.dimensions, ", "));
    text += fmt::format("{:<{}}  {:<4}  {:<16}", dataset.name, width, name_of(dataset.type), shape);
    if (dataset.elements > dataset.not_finite)
      text += fmt::format("{:>13.6g}{:>13.6g}{:>13.6g}", dataset.min, dataset.max, mean_of(dataset));
    if (dataset.not_finite > 0) text += fmt::format("  {} NaN or Inf", grouped(dataset.not_finite));
    text += "\n";
  }
  text += fmt::format("{} datasets", datasets.size());
  const int64_t parameters = parameters_of(datasets);
  if (parameters > 0) text += fmt::format(", {} parameters", grouped(parameters));
  return text + "\n";
}

/// Throws what `train` would for a corpus, and `translate` for a model, of which only the digest and the
/// layout as HDF5 are known to be right. Reads no values of a model.
void check_use(const data::Hdf5Reader& reader, const std::string& format) {
  if (format == data::kCorpusFormat) {
    const data::Corpus opened(reader.path());
  } else if (is_model_format(format)) {
    check_model(reader);
  } else if (!data::is_format_of_ours(format)) {
    fail(ExitCode::kBadData, "{}: expected a corpus, a checkpoint or a weights file, but its format is '{}'",
         reader.path(), format);
  }
}

/// Of a corpus that is only verified, Corpus::check_all() reads the data. `of_run`: its name is that of a
/// checkpoint in a run folder.
Contents contents_of_hdf5(const std::string& path, const InspectCommandOptions& options, bool of_run) {
  const data::Hdf5Reader reader(path);  // checks the digest
  Contents contents{
      .path = path, .digest = reader.digest(), .config = "", .parameter_digest = "", .datasets = {}};
  const auto text = [&](const char* name) {
    return reader.has_attribute("/", name) ? reader.string_attribute("/", name) : std::string();
  };
  const std::string format = text(data::kFormatKey);
  if (of_run && format != kCheckpointFormat) {
    fail(ExitCode::kBadData,
         "{}: is named as a checkpoint, but its format is '{}'; move it out of the folder", path, format);
  }
  check_use(reader, format);
  if (options.verify && format == kCheckpointFormat) check_resume_point(reader);
  contents.is_corpus = format == data::kCorpusFormat;
  const bool with_data = !(contents.is_corpus && options.verify && !options.json);
  for (const std::string& name : reader.datasets("/"))
    contents.datasets.push_back(read_dataset(reader, name, with_data));
  contents.config = text("config");
  contents.parameter_digest = text(kDigestAttribute);
  return contents;
}

Contents contents_of_safetensors(const std::string& path) {
  const std::vector<uint8_t> bytes = data::read_file(path, data::kAnyBytes);
  const data::SafetensorsFile file(bytes, path);
  const auto metadata = [&](const char* key) {
    const std::string* value = file.find_metadata(key);
    return value != nullptr ? *value : std::string();
  };
  Contents contents{.path = path,
                    .digest = metadata("digest"),
                    .config = metadata("config"),
                    .parameter_digest = metadata(kDigestAttribute),
                    .datasets = {}};
  for (const data::SafeTensor& tensor : file.tensors()) {
    Dataset dataset;
    dataset.name = tensor.name;
    dataset.dimensions = tensor.shape;
    const std::span<const uint8_t> data = file.data(tensor);
    const auto add = [&]<typename T>(ElementType type, T) {
      dataset.type = type;
      std::vector<T> values(data.size() / sizeof(T));
      std::memcpy(values.data(), data.data(), data.size());
      add_statistics(values.data(), values.size(), dataset);
    };
    if (tensor.type == "F32") {
      add(ElementType::kF32, float());
    } else if (tensor.type == "BF16") {
      add(ElementType::kBF16, BF16());
    } else if (tensor.type == "I8") {
      add(ElementType::kI8, int8_t());
    } else if (tensor.type == "U8") {
      add(ElementType::kU8, uint8_t());
    } else {
      data::fail(data::ErrorKind::kBadData, "{}: {} is of type {}; files of ours hold F32, BF16, I8 and U8",
                 path, tensor.name, tensor.type);
    }
    dataset.elements = static_cast<int64_t>(data.size() / size_of(dataset.type));
    contents.datasets.push_back(dataset);
  }
  return contents;
}

/// Checks the output of a model for its probes; returns a description of the check. "" for a file without the
/// parameters and the configuration of a model.
std::string verify_probes(const Contents& contents, const Job& job) {
  if (contents.config.empty() || parameters_of(contents.datasets) == 0) return "";
  const std::unique_ptr<Context> context = make_context(job, "cpu", 1);
  const std::unique_ptr<LoadedModel> model = load_model(*context, contents.path, DType::kF32);
  if (model->probes.empty()) return ", no probes";
  const std::vector<Probe> probes = probes_from_json(model->probes, contents.path);
  const double difference = check_probes(*context, *model, probes, kProbeTolerance);
  return fmt::format(", {} probes give the expected logits (greatest difference {:.2g})", probes.size(),
                     difference);
}

nlohmann::json parsed_config(const std::string& text, const std::string& origin) {
  nlohmann::json json = parse_json(text);
  refuse_newer_format(json, origin);
  if (json.is_discarded())
    fail(ExitCode::kBadData, "{} is not JSON of at most {} bytes", origin, kMaxJsonBytes);
  return json;
}

nlohmann::json contents_json(const Contents& contents) {
  nlohmann::json list = nlohmann::json::array();
  for (const Dataset& dataset : contents.datasets) {
    nlohmann::json entry = {
        {"name", dataset.name}, {"type", name_of(dataset.type)}, {"shape", dataset.dimensions}};
    if (dataset.elements > dataset.not_finite) {
      entry["min"] = dataset.min;
      entry["max"] = dataset.max;
      entry["mean"] = mean_of(dataset);
    }
    if (dataset.not_finite > 0) entry["not_finite"] = dataset.not_finite;
    list.push_back(entry);
  }
  nlohmann::json result = {{"file", contents.path},
                           {"digest", contents.digest},
                           {"parameters", parameters_of(contents.datasets)},
                           {"datasets", list}};
  if (!contents.parameter_digest.empty()) result[kDigestAttribute] = contents.parameter_digest;
  if (!contents.config.empty())
    result["config"] = parsed_config(contents.config, contents.path + ": its configuration");
  return result;
}

int64_t file_bytes(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(bytes);
}

/// The contents of a run folder with its checkpoints, by increasing step. `for_person`: a file that cannot be
/// read is named in "unreadable", with the reason, and ends nothing.
nlohmann::json contents_json(const std::string& folder, const std::optional<StatusRecord>& status,
                             const std::vector<std::string>& checkpoints, bool for_person) {
  nlohmann::json result = {{"folder", folder},
                           {"checkpoints", nlohmann::json::array()},
                           {"command", text_of_run_file(folder, "command.txt")}};
  for (const std::string& path : checkpoints) {
    result["checkpoints"].push_back({{"file", data::without_folder(path)},
                                     {"step", step_of_checkpoint(path)},
                                     {"bytes", file_bytes(path)}});
    result["newest"] = data::without_folder(path);
  }
  if (status) {
    result["status"] = {
        {"state", status->state}, {"killed", was_killed(*status)}, {"exit_code", status->exit_code},
        {"step", status->step},   {"message", status->message},    {"host", status->host},
        {"pid", status->pid},     {"ranks", status->ranks},        {"started", status->started},
        {"ended", status->ended}};
  }
  const auto read = [&](const char* name, const auto& add) {
    try {
      add();
    } catch (const std::runtime_error& error) {
      if (!for_person) throw;
      result["unreadable"][name] = error.what();
    }
  };
  read("best", [&] {
    const std::string best = read_best(folder);
    if (best.empty()) return;
    result["best_record"] = parsed_config(text_of_run_file(folder, "best.json"), folder + "/best.json");
    result["best"] = data::without_folder(best);
  });
  read("config", [&] {
    if (const std::string config = text_of_run_file(folder, "config.json"); !config.empty())
      result["config"] = parsed_config(config, folder + "/config.json");
  });
  return result;
}

/// The same for a person.
std::string contents_text(const nlohmann::json& contents, const std::optional<StatusRecord>& status) {
  std::string text = fmt::format("{}: {}\n", contents["folder"].get<std::string>(), state_text(status));
  const auto line = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:<12} {}\n", name, value);
  };
  if (status) {
    line("started",
         fmt::format("{} on {}, {}", status->started, status->host, counted(status->ranks, "rank")));
    line("ended", status->ended);
    line("message", status->message);
  }
  int64_t bytes = 0;
  for (const auto& checkpoint : contents["checkpoints"]) bytes += checkpoint["bytes"].get<int64_t>();
  line("checkpoints", fmt::format("{}, {}", contents["checkpoints"].size(), bytes_text(bytes)));
  line("newest", contents.value("newest", ""));
  if (contents.contains("best"))
    line("best",
         fmt::format("{} {}", contents["best"].get<std::string>(), json_text(contents["best_record"])));
  if (contents.contains("config")) line("config", json_text(contents["config"]));
  if (contents.contains("unreadable")) {
    for (const auto& [name, reason] : contents["unreadable"].items())
      line(name, "cannot be read: " + reason.get<std::string>());
  }
  line("command", contents["command"]);
  return text;
}

int inspect_file(const std::string& path, const InspectCommandOptions& options, const Job& job, bool of_run);

int inspect_folder(const std::string& path, const InspectCommandOptions& options, const Job& job) {
  const std::optional<StatusRecord> status = read_status(path);
  const std::vector<std::string> checkpoints = list_checkpoints(path);
  if (!status && checkpoints.empty()) {
    fail(ExitCode::kMissingInput,
         "{}: is a folder, but not of a training run: it has no checkpoint and no status.json", path);
  }
  refuse_newer_run(path);
  if (!options.verify) {
    const nlohmann::json contents = contents_json(path, status, checkpoints, !options.json);
    write_output(options.json ? json_text(contents) + "\n" : contents_text(contents, status));
    return 0;
  }
  read_best(path);  // refuses a damaged record
  if (checkpoints.empty()) fail(ExitCode::kMissingInput, "{}: has no checkpoint to verify", path);
  int verified = 0;
  std::exception_ptr failure;  // the first; the others are reported at once
  for (const std::string& checkpoint : checkpoints) {
    try {
      inspect_file(checkpoint, options, job, /*of_run=*/true);
      ++verified;
    } catch (const std::runtime_error& error) {
      std::error_code code;
      if (std::filesystem::symlink_status(checkpoint, code).type() == std::filesystem::file_type::not_found) {
        say(job, checkpoint + ": removed by the run in the meantime");
      } else if (failure) {
        tell_error("ventris inspect", error.what());
      } else {
        failure = std::current_exception();
      }
    }
  }
  if (failure) std::rethrow_exception(failure);
  if (verified == 0)
    fail(ExitCode::kMissingInput, "{}: the run removed each checkpoint before it was verified; try again",
         path);
  return 0;
}

int run_inspect(const InspectCommandOptions& options, const Job& job) {
  if (options.files.size() != 1)
    fail(ExitCode::kUsage, "one file is expected, but {} were given", options.files.size());
  const std::string& path = options.files.front();
  if (!options.pairs.steps.empty()) return print_step_pairs(options.pairs, path);
  return data::is_folder(path) ? inspect_folder(path, options, job)
                               : inspect_file(path, options, job, /*of_run=*/false);
}

int inspect_file(const std::string& path, const InspectCommandOptions& options, const Job& job, bool of_run) {
  const Contents contents =
      is_safetensors(path) ? contents_of_safetensors(path) : contents_of_hdf5(path, options, of_run);
  std::string probes;
  if (options.verify) {
    for (const Dataset& dataset : contents.datasets) {
      if (dataset.not_finite == 0) continue;
      data::fail(data::ErrorKind::kBadData, "{}: {} holds {} values that are NaN or Inf", path, dataset.name,
                 dataset.not_finite);
    }
    if (contents.is_corpus)
      data::Corpus(path).check_all(static_cast<int>(std::thread::hardware_concurrency()));
    probes = verify_probes(contents, job);
  }
  if (options.json) {
    nlohmann::json result = contents_json(contents);
    if (options.verify) result["verified"] = true;
    write_output(json_text(result) + "\n");
  } else if (options.verify) {
    const std::string digest =
        contents.digest.empty() ? "no digest" : fmt::format("digest {} is right", contents.digest);
    write_output(fmt::format("{}: verified; {}, {} datasets, no NaN or Inf{}\n", path, digest,
                             contents.datasets.size(), probes));
  } else {
    write_output(contents_text(path, contents.digest, contents.datasets));
    if (!contents.parameter_digest.empty())
      write_output("parameter digest: " + contents.parameter_digest + "\n");
    if (!contents.config.empty()) write_output("config: " + contents.config + "\n");
  }
  return 0;
}

}  // namespace

Command inspect_command() {
  const auto options = std::make_shared<InspectCommandOptions>();
  Command command;
  command.name = "inspect";
  command.summary =
      "shows the contents of a corpus, checkpoint, weights or safetensors file, or a run folder";
  command.synopsis = "FILE_OR_DIR [--verify] [--json]";
  command.description = {
      "Lists the datasets of a file with type, shape, minimum, maximum and mean, and the number "
      "of parameters and their digest, which depends only on their bits. An HDF5 or safetensors file "
      "of ours carries a digest of its contents, which is checked first: a damaged file is an error, "
      "exit code 65. So is a corpus in HDF5 that 'train' would refuse, and weights or a checkpoint that "
      "'translate' would: of their values, only --verify judges.",
      "For a run folder it shows the state of the newest start, the checkpoints, the newest and the best "
      "of them, the command and the configuration; with --verify it verifies every checkpoint.",
      "With --verify it prints one line if the file is sound, and also refuses a file with NaN or Inf, a "
      "corpus with ids outside of its vocabulary, and a checkpoint from which no run can resume. "
      "An exported model contains probes, sentence pairs with their logits; "
      "they are recomputed and must agree within 0.001."};
  command.examples = {{"inspect weights.h5", "The contents of a file:"},
                      {"inspect corpus.h5 --verify", "Whether a file was copied intact:"},
                      {"inspect model", "The state of a training run:"},
                      {"inspect model --steps 12000:12001", "The sentence pairs of two steps:"}};
  OptionTable& table = command.options;
  table.group("Input and output");
  table.operands("FILE_OR_DIR", options->files, "The file, or the run folder.").required = true;
  table.toggle("verify", options->verify, "Verifies the file instead of listing it.").excludes = {"steps"};
  table.toggle("json", options->json, "Prints one JSON object.");
  add_step_pair_options(options->pairs, table);
  command.run = [options](Job& job) { return run_inspect(*options, job); };
  return command;
}

}  // namespace ventris
