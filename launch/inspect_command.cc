#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <numeric>

#include "data/error.h"
#include "data/hdf5_file.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/output.h"

namespace ventris {

namespace {

using data::ElementType;

struct Options {
  std::vector<std::string> files;
  bool verify = false;
  bool json = false;
};

struct Dataset {
  std::string name;
  ElementType type;
  std::vector<int64_t> dimensions;
  int64_t elements = 0;
  int64_t not_finite = 0;
  double least = std::numeric_limits<double>::infinity();  // of the finite elements
  double most = -std::numeric_limits<double>::infinity();
  double sum = 0.0;
};

// Reads the elements in pieces, so that memory does not grow with the file.
template <typename T>
void add_statistics(std::ifstream& file, const std::string& path, Dataset& dataset) {
  std::vector<T> piece(size_t{1} << 16);
  for (int64_t left = dataset.elements; left > 0;) {
    const auto count = static_cast<size_t>(std::min<int64_t>(left, std::ssize(piece)));
    if (!file.read(reinterpret_cast<char*>(piece.data()), static_cast<std::streamsize>(count * sizeof(T)))) {
      data::fail(data::ErrorKind::kIo, "{}: cannot read {}", path, dataset.name);
    }
    for (size_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>(piece[i]);
      if (!std::isfinite(value)) {
        ++dataset.not_finite;
        continue;
      }
      dataset.least = std::min(dataset.least, value);
      dataset.most = std::max(dataset.most, value);
      dataset.sum += value;
    }
    left -= static_cast<int64_t>(count);
  }
}

Dataset read_dataset(const data::Hdf5Reader& reader, const std::string& name) {
  Dataset dataset;
  dataset.name = name;
  dataset.type = reader.type(name);
  dataset.dimensions = reader.dimensions(name);
  dataset.elements =
      std::accumulate(dataset.dimensions.begin(), dataset.dimensions.end(), int64_t{1}, std::multiplies<>());
  if (dataset.elements == 0) return dataset;
  std::ifstream file(reader.path(), std::ios::binary);
  file.seekg(reader.file_offset(name));
  switch (dataset.type) {
    case ElementType::kF32:
      add_statistics<float>(file, reader.path(), dataset);
      break;
    case ElementType::kF64:
      add_statistics<double>(file, reader.path(), dataset);
      break;
    case ElementType::kI32:
      add_statistics<int32_t>(file, reader.path(), dataset);
      break;
    case ElementType::kI64:
      add_statistics<int64_t>(file, reader.path(), dataset);
      break;
    case ElementType::kU8:
      add_statistics<uint8_t>(file, reader.path(), dataset);
      break;
  }
  return dataset;
}

int64_t parameters_of(const std::vector<Dataset>& datasets) {
  int64_t parameters = 0;
  for (const Dataset& dataset : datasets) {
    if (dataset.name.rfind("/model/", 0) == 0) parameters += dataset.elements;
  }
  return parameters;
}

double mean_of(const Dataset& dataset) {
  const int64_t finite = dataset.elements - dataset.not_finite;
  return finite > 0 ? dataset.sum / static_cast<double>(finite) : 0.0;
}

std::string text_of(const std::string& path, const std::string& digest,
                    const std::vector<Dataset>& datasets) {
  size_t width = 7;
  for (const Dataset& dataset : datasets) width = std::max(width, dataset.name.size());
  std::string text = fmt::format("{}: digest {}\n{:<{}}  type  {:<16}{:>13}{:>13}{:>13}\n", path, digest,
                                 "dataset", width, "shape", "min", "max", "mean");
  for (const Dataset& dataset : datasets) {
    const std::string shape = fmt::format("[{}]", fmt::join(dataset.dimensions, ", "));
    text += fmt::format("{:<{}}  {:<4}  {:<16}", dataset.name, width, name_of(dataset.type), shape);
    if (dataset.elements > dataset.not_finite) {
      text += fmt::format("{:>13.6g}{:>13.6g}{:>13.6g}", dataset.least, dataset.most, mean_of(dataset));
    }
    if (dataset.not_finite > 0) text += fmt::format("  {} NaN or Inf", grouped(dataset.not_finite));
    text += "\n";
  }
  text += fmt::format("{} datasets", datasets.size());
  const int64_t parameters = parameters_of(datasets);
  if (parameters > 0) text += fmt::format(", {} parameters", grouped(parameters));
  return text + "\n";
}

nlohmann::json json_of(const data::Hdf5Reader& reader, const std::vector<Dataset>& datasets) {
  nlohmann::json list = nlohmann::json::array();
  for (const Dataset& dataset : datasets) {
    nlohmann::json entry = {
        {"name", dataset.name}, {"type", name_of(dataset.type)}, {"shape", dataset.dimensions}};
    if (dataset.elements > dataset.not_finite) {
      entry["min"] = dataset.least;
      entry["max"] = dataset.most;
      entry["mean"] = mean_of(dataset);
    }
    if (dataset.not_finite > 0) entry["not_finite"] = dataset.not_finite;
    list.push_back(entry);
  }
  nlohmann::json result = {{"file", reader.path()},
                           {"digest", reader.digest()},
                           {"parameters", parameters_of(datasets)},
                           {"datasets", list}};
  if (reader.has_attribute("/", "config")) {
    result["config"] = nlohmann::json::parse(reader.string_attribute("/", "config"), nullptr, false);
  }
  return result;
}

int run_inspect(const Options& options) {
  if (options.files.size() != 1)
    fail(ExitCode::kUsage, "one file is expected, but {} were given", options.files.size());
  const data::Hdf5Reader reader(options.files.front());  // checks the digest
  std::vector<Dataset> datasets;
  for (const std::string& name : reader.datasets("/")) datasets.push_back(read_dataset(reader, name));
  if (options.verify) {
    for (const Dataset& dataset : datasets) {
      if (dataset.not_finite == 0) continue;
      data::fail(data::ErrorKind::kBadData, "{}: {} holds {} values that are NaN or Inf", reader.path(),
                 dataset.name, dataset.not_finite);
    }
  }
  if (options.json) {
    nlohmann::json result = json_of(reader, datasets);
    if (options.verify) result["verified"] = true;
    write_output(result.dump() + "\n");
  } else if (options.verify) {
    write_output(fmt::format("{}: verified; digest {} is right, {} datasets, no NaN or Inf\n", reader.path(),
                             reader.digest(), datasets.size()));
  } else {
    write_output(text_of(reader.path(), reader.digest(), datasets));
    if (reader.has_attribute("/", "config"))
      write_output("config: " + reader.string_attribute("/", "config") + "\n");
  }
  return 0;
}

}  // namespace

Command inspect_command() {
  const auto options = std::make_shared<Options>();
  Command command;
  command.name = "inspect";
  command.summary = "shows what a corpus, checkpoint or weights file holds";
  command.synopsis = "FILE [--verify] [--json]";
  command.description = {
      "Lists the datasets of a file with type, shape, least, greatest and mean value, and the number of "
      "parameters. Every file of ours carries a digest of its contents, which is checked before anything "
      "else: a damaged file is an error, exit code 65.",
      "With --verify it prints one line that the file is sound, and refuses one that holds NaN or Inf too."};
  command.examples = {{"inspect weights.h5", "What is in a file:"},
                      {"inspect corpus.h5 --verify", "Whether a file arrived in one piece:"}};
  OptionTable& table = command.options;
  table.group("Input and output");
  table.operands("FILE", options->files, "The file.").required = true;
  table.toggle("verify", options->verify, "Says whether the file is sound instead of listing it.");
  table.toggle("json", options->json, "Prints one JSON object.");
  command.run = [options](Job&) { return run_inspect(*options); };
  return command;
}

}  // namespace ventris
