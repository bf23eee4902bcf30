#include "trainer/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "backend/error.h"
#include "backend/transfer.h"
#include "data/hdf5_file.h"
#include "model/packed_parameters.h"
#include "trainer/config_json.h"
#include "trainer/model_files.h"

namespace ventris {
namespace {

constexpr const char* kModelGroup = "/model";

std::string dataset_of(const LogicalParameter& parameter) {
  return std::string(kModelGroup) + "/" + parameter.name;
}

std::vector<int64_t> dimensions_of(const LogicalParameter& parameter) {
  if (parameter.vector) return {parameter.cols};
  return {parameter.rows, parameter.cols};
}

std::string describe(const std::vector<int64_t>& dimensions) {
  return fmt::format("[{}]", fmt::join(dimensions, ", "));
}

/// Copies between a strided view of masters (f32, or f64 in gradient checks) and contiguous f32.
template <typename View, typename Copy>
void for_each_row(const View& view, float* contiguous, Copy&& copy) {
  for (int64_t r = 0; r < view.rows; ++r) {
    float* row = contiguous + r * view.cols;
    if (view.dtype == DType::kF64) {
      copy(view.template row<double>(r), row, view.cols);
    } else {
      copy(view.template row<float>(r), row, view.cols);
    }
  }
}

/// Paths of all datasets under a group, in creation order.
void list_datasets(const data::Hdf5Reader& reader, const std::string& group,
                   std::vector<std::string>& found) {
  for (const std::string& name : reader.members(group)) {
    const std::string path = group + "/" + name;
    if (reader.is_group(path)) {
      list_datasets(reader, path, found);
    } else {
      found.push_back(path);
    }
  }
}

}  // namespace

void write_model(Context& context, data::Hdf5Writer& writer, const TransformerConfig& config,
                 const ParameterStore& store, const std::string& tokenizer_model) {
  const HostCopy host(context, store.values());
  std::vector<float> values;
  for (const LogicalParameter& parameter : store.logical()) {
    const ConstTensor view = store.logical_block(host.view(), parameter);
    values.resize(static_cast<size_t>(view.size()));
    for_each_row(view, values.data(),
                 [](const auto* from, float* to, int64_t n) { std::copy_n(from, n, to); });
    writer.write(dataset_of(parameter), data::ElementType::kF32, dimensions_of(parameter), values.data());
  }
  const int64_t bytes = static_cast<int64_t>(tokenizer_model.size());
  writer.write("/tokenizer", data::ElementType::kU8, std::vector<int64_t>{bytes}, tokenizer_model.data());
  writer.write_attribute("/", "config", to_json(config));
}

void read_model(Context& context, const data::Hdf5Reader& reader, ParameterStore& store) {
  const auto refuse = [&](const std::string& name, const std::string& what) {
    fail(ExitCode::kBadData, "{}: parameter {} {}", reader.path(), name, what);
  };
  if (!reader.exists(kModelGroup)) {
    fail(ExitCode::kBadData, "{}: holds no parameters (no group {}); expected a checkpoint or a weights file",
         reader.path(), kModelGroup);
  }
  std::vector<std::string> datasets;
  list_datasets(reader, kModelGroup, datasets);
  for (const std::string& path : datasets) {
    const std::string name = path.substr(std::string(kModelGroup).size() + 1);
    if (store.find(name) == nullptr) refuse(name, "is unknown: this model has no such parameter");
  }
  Tensor host = store.values();
  std::vector<char> bytes(static_cast<size_t>(host.size()) * size_of(host.dtype));
  host.data = bytes.data();
  std::vector<float> values;
  for (const LogicalParameter& parameter : store.logical()) {
    const std::string dataset = dataset_of(parameter);
    if (!reader.exists(dataset)) refuse(parameter.name, "is missing");
    const std::vector<int64_t> expected = dimensions_of(parameter);
    const std::vector<int64_t> dimensions = reader.dimensions(dataset);
    if (dimensions != expected) {
      refuse(parameter.name,
             fmt::format("has shape {}, but this model needs {}", describe(dimensions), describe(expected)));
    }
    const Tensor view = store.logical_block(host, parameter);
    values.resize(static_cast<size_t>(view.size()));
    reader.read(dataset, data::ElementType::kF32, expected, values.data());
    if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); })) {
      refuse(parameter.name,
             "holds NaN or Inf; the run that wrote it had diverged: use an earlier checkpoint");
    }
    for_each_row(view, values.data(),
                 [](auto* to, const float* from, int64_t n) { std::copy_n(from, n, to); });
  }
  copy_to_device(context, store.values().data, bytes.data(), bytes.size());
}

void save_weights(Context& context, const std::string& path, const TransformerConfig& config,
                  const ParameterStore& store, const std::string& tokenizer_model,
                  const std::string& provenance) {
  data::Hdf5Writer writer(path);
  write_model(context, writer, config, store, tokenizer_model);
  writer.write_attribute("/", "format", std::string(kWeightsFormat));
  writer.write_attribute("/", "provenance", provenance);
  writer.commit();
}

std::unique_ptr<LoadedModel> load_model(Context& context, const std::string& file_or_dir, DType dtype,
                                        ModelUse use) {
  auto model = std::make_unique<LoadedModel>();
  model->path = resolve_model_file(file_or_dir);
  const data::Hdf5Reader reader(model->path);
  model->config = read_config(reader);
  model->tokenizer = std::make_unique<data::Tokenizer>(read_tokenizer_model(reader), model->path);
  if (model->tokenizer->vocab_size() != model->config.vocab_size) {
    fail(ExitCode::kBadData, "{}: its tokenizer has {} words, but its model has {}", model->path,
         model->tokenizer->vocab_size(), model->config.vocab_size);
  }
  model->ids = declare_transformer(model->config, model->store);
  model->store.allocate(context.device(), dtype, /*gradients=*/false);
  read_model(context, reader, model->store);
  if (use == ModelUse::kTranslation && can_pack(context, model->store)) {
    pack_parameters(context, model->ids, model->store);
  } else {
    model->store.refresh_compute_copy(context);
  }
  return model;
}

}  // namespace ventris
