// SPDX-License-Identifier: Apache-2.0
#include "trainer/files/export_limits.h"

#include <fmt/core.h>

namespace ventris {
namespace {

class Limits {
 public:
  /// Adds a limit if the model exceeds it.
  void add(bool beyond, std::string what, std::string remedy) {
    if (beyond) limits_.push_back({std::move(what), std::move(remedy)});
  }
  void need_epsilon(float actual, float needed) {
    add(actual != needed, fmt::format("a layer-norm-epsilon of {}", actual),
        fmt::format("--layer-norm-epsilon {}", needed));
  }
  std::vector<ExportLimit> take() { return std::move(limits_); }

 private:
  std::vector<ExportLimit> limits_;
};

std::vector<ExportLimit> huggingface_limits(const TransformerConfig& config) {
  Limits limits;
  limits.add(config.pre_norm, "pre-norm layers", "no --pre-norm");
  limits.add(config.learned_positions, "learned positions", "--positions paper");
  limits.add(config.marian_positions, "Marian's sinusoids", "--positions paper");
  limits.add(config.zero_start, "a start without an embedding", "--begin-embedding zero or learned");
  limits.need_epsilon(config.layer_norm_epsilon, 1e-5F);
  return limits.take();
}

std::vector<ExportLimit> marian_limits(const TransformerConfig& config, int32_t begin_token) {
  Limits limits;
  limits.add(!config.marian_positions,
             config.learned_positions ? "learned positions" : "other sinusoids than Marian's",
             "--positions marian");
  limits.add(!config.zero_start && config.zero_word != begin_token,
             "a learned embedding of the begin mark (Marian begins with zeros)", "--begin-embedding none");
  limits.need_epsilon(config.layer_norm_epsilon, 1e-6F);
  return limits.take();
}

}  // namespace

const char* name_of(ExportFormat format) {
  switch (format) {
    case ExportFormat::kHdf5:
      return "hdf5";
    case ExportFormat::kSafetensors:
      return "safetensors";
    case ExportFormat::kCtranslate2:
      return "ctranslate2";
    case ExportFormat::kHuggingface:
      return "huggingface";
    case ExportFormat::kMarian:
      return "marian";
  }
  return "";
}

std::vector<ExportLimit> export_limits(ExportFormat format, const TransformerConfig& config,
                                       int32_t begin_token) {
  if (format == ExportFormat::kHuggingface) return huggingface_limits(config);
  if (format == ExportFormat::kMarian) return marian_limits(config, begin_token);
  return {};
}

std::string describe_exports(const TransformerConfig& config, int32_t begin_token) {
  std::string able;
  std::string others;
  for (const ExportFormat format :
       {ExportFormat::kHdf5, ExportFormat::kSafetensors, ExportFormat::kCtranslate2,
        ExportFormat::kHuggingface, ExportFormat::kMarian}) {
    const std::vector<ExportLimit> limits = export_limits(format, config, begin_token);
    if (limits.empty()) {
      able += fmt::format("{}{}", able.empty() ? "" : ", ", name_of(format));
      continue;
    }
    others += fmt::format("; {} would need", name_of(format));
    for (const ExportLimit& limit : limits) {
      others += fmt::format("{} {}", &limit == limits.data() ? "" : ",", limit.remedy);
    }
  }
  return able + others;
}

}  // namespace ventris
