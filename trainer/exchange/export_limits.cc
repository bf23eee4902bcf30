// SPDX-License-Identifier: Apache-2.0
#include "trainer/exchange/export_limits.h"

#include <fmt/core.h>

#include <iterator>

namespace ventris {
namespace {

constexpr const char* kFormatNames[] = {"hdf5", "safetensors", "ctranslate2", "huggingface", "marian"};

}  // namespace

const char* name_of(ExportFormat format) {
  return kFormatNames[static_cast<size_t>(format)];
}

std::vector<ExportLimit> export_limits(ExportFormat format, const TransformerConfig& config,
                                       int32_t begin_token) {
  std::vector<ExportLimit> limits;
  const auto limit = [&](bool beyond, const std::string& what, const std::string& remedy) {
    if (beyond) limits.push_back({what, remedy});
  };
  const auto need_epsilon = [&](float needed) {
    const float actual = config.layer_norm_epsilon;
    limit(actual != needed, fmt::format("a layer-norm-epsilon of {}", actual),
          fmt::format("--layer-norm-epsilon {}", needed));
  };
  if (format == ExportFormat::kHuggingface) {
    limit(config.pre_norm, "pre-norm layers", "no --pre-norm");
    limit(config.learned_positions, "learned positions", "--positions paper");
    limit(config.marian_positions, "Marian's sinusoids", "--positions paper");
    limit(config.zero_start, "a start without an embedding", "--begin-embedding zero or learned");
    need_epsilon(1e-5F);
  } else if (format == ExportFormat::kMarian) {
    limit(!config.marian_positions,
          config.learned_positions ? "learned positions" : "other sinusoids than Marian's",
          "--positions marian");
    limit(!config.zero_start && config.zero_token != begin_token,
          "a learned embedding of the begin mark (Marian begins with zeros)", "--begin-embedding none");
    limit(config.activation == Activation::kGelu, "the exact GELU (Marian's is x * sigmoid(1.702 x))",
          "--activation relu or swish");
    need_epsilon(1e-6F);
  }
  return limits;
}

std::string describe_exports(const TransformerConfig& config, int32_t begin_token) {
  std::string able;
  std::string others;
  for (size_t i = 0; i < std::size(kFormatNames); ++i) {
    const std::vector<ExportLimit> limits = export_limits(static_cast<ExportFormat>(i), config, begin_token);
    if (limits.empty()) {
      able += fmt::format("{}{}", able.empty() ? "" : ", ", kFormatNames[i]);
      continue;
    }
    others += fmt::format("; {} would need", kFormatNames[i]);
    for (const ExportLimit& limit : limits) {
      others += fmt::format("{} {}", &limit == limits.data() ? "" : ",", limit.remedy);
    }
  }
  return able + others;
}

}  // namespace ventris
