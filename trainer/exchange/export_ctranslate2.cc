// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "backend/device/error.h"
#include "backend/ops/embedding.h"
#include "backend/ops/int8_scale.h"
#include "data/io/atomic_file.h"
#include "data/io/json_text.h"
#include "trainer/checkpoint/file_precision.h"
#include "trainer/exchange/export_formats.h"

// CTranslate2 6 (binary version), TransformerSpec 7: a header, variables (name, shape, type, bytes) and
// aliases.

namespace ventris {
namespace {

constexpr uint32_t kBinaryVersion = 6;
constexpr uint32_t kSpecRevision = 7;
constexpr uint8_t kF32 = 0;
constexpr uint8_t kI8 = 1;
constexpr uint8_t kI16 = 2;
constexpr uint8_t kBF16 = 5;
/// The runtime's own default; another value is in config.json.
constexpr float kDefaultEpsilon = 1e-5F;

int8_t activation_type(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return 0;
    case Activation::kGelu:
      return 3;
    case Activation::kSwish:
      return 2;
  }
  return 0;
}

/// model.bin, written variable by variable. Their number is filled in at the end.
class ModelFile {
 public:
  explicit ModelFile(const std::string& path) : path_(path), file_(path) {
    put(kBinaryVersion);
    put_string("TransformerSpec");
    put(kSpecRevision);
    count_at_ = file_.size();
    put(count_);
  }

  void add(const std::string& name, const Array& array) {
    add(name, array.shape(), kF32, bytes_of(array.values));
  }
  /// A matrix that is multiplied, [outputs, in]. In int8 with `name`_scale [outputs], the divisors of its
  /// numbers; 1 if all are zero, as in the runtime's converter.
  void add(const std::string& name, const Array& matrix, FilePrecision precision) {
    if (precision == FilePrecision::kF32) return add(name, matrix);
    if (precision == FilePrecision::kBF16) {
      return add(name, matrix.shape(), kBF16, bytes_of(bf16_values(matrix.values)));
    }
    Int8Matrix quantized = int8_matrix(matrix, Outputs::kRows);
    add(name, matrix.shape(), kI8, bytes_of(quantized.values));
    for (float& scale : quantized.scales) scale = scale > 0.0F ? int8_inverse(scale) : 1.0F;
    add(name + "_scale", {matrix.rows}, kF32, bytes_of(quantized.scales));
  }
  template <std::integral T>
  void add(const std::string& name, T value) {
    static_assert(sizeof(T) <= 2);
    begin(name, {}, sizeof(T) == 1 ? kI8 : kI16, sizeof(value));
    put(value);
  }
  void alias(const std::string& name, const std::string& variable) { aliases_.emplace_back(name, variable); }

  void commit() {
    put(static_cast<uint32_t>(aliases_.size()));
    for (const auto& [name, variable] : aliases_) {
      put_string(name);
      put_string(variable);
    }
    file_.write_at(count_at_, &count_, sizeof(count_));
    file_.commit();
  }

 private:
  template <typename T>
  void put(T value) {
    file_.write(&value, sizeof(value));
  }
  void put_string(const std::string& text) {
    put(static_cast<uint16_t>(text.size() + 1));
    file_.write(text.c_str(), text.size() + 1);
  }
  void add(const std::string& name, const std::vector<int64_t>& shape, uint8_t type, std::string_view bytes) {
    begin(name, shape, type, bytes.size());
    file_.write(bytes);
  }
  void begin(const std::string& name, const std::vector<int64_t>& shape, uint8_t type, size_t bytes) {
    if (bytes > UINT32_MAX) {
      fail(ExitCode::kBadConfiguration, "{}: {} has {} bytes; the limit of the format is 4 GiB per array",
           path_, name, bytes);
    }
    put_string(name);
    put(static_cast<uint8_t>(shape.size()));
    for (const int64_t extent : shape) put(static_cast<uint32_t>(extent));
    put(type);
    put(static_cast<uint32_t>(bytes));
    ++count_;
  }

  std::string path_;
  data::AtomicFile file_;
  int64_t count_at_ = 0;
  uint32_t count_ = 0;
  std::vector<std::pair<std::string, std::string>> aliases_;
};

class LayerWriter {
 public:
  LayerWriter(ModelFile& file, const ModelArrays& arrays, FilePrecision precision)
      : file_(file), arrays_(arrays), precision_(precision) {}

  /// The layers `names` concatenated to one, with weights [out, in].
  void linear(const std::string& to, const std::vector<std::string>& names) {
    std::vector<Array> weights;
    std::vector<Array> biases;
    for (const std::string& name : names) {
      weights.push_back(transposed(arrays_.get(name + "/weight")));
      biases.push_back(arrays_.get(name + "/bias"));
    }
    file_.add(to + "/weight", stacked(weights), precision_);
    file_.add(to + "/bias", stacked(biases));
  }
  void norm(const std::string& to, const std::string& from) {
    file_.add(to + "/gamma", arrays_.get(from + "/gamma"));
    file_.add(to + "/beta", arrays_.get(from + "/beta"));
  }
  void self_attention(const std::string& to, const std::string& from) {
    norm(to + "/layer_norm", from + "/norm");
    linear(to + "/linear_0", {from + "/query", from + "/key", from + "/value"});
    linear(to + "/linear_1", {from + "/output"});
  }
  void cross_attention(const std::string& to, const std::string& from) {
    norm(to + "/layer_norm", from + "/norm");
    linear(to + "/linear_0", {from + "/query"});
    linear(to + "/linear_1", {from + "/key", from + "/value"});
    linear(to + "/linear_2", {from + "/output"});
  }
  void feed_forward(const std::string& to, const std::string& from) {
    norm(to + "/layer_norm", from + "/norm");
    linear(to + "/linear_0", {from + "/inner"});
    linear(to + "/linear_1", {from + "/outer"});
  }
  /// The first variables of both stacks.
  void stack(const std::string& name, const TransformerConfig& config) {
    file_.add(name + "/num_heads", static_cast<int16_t>(config.heads));
    file_.add(name + "/pre_norm", static_cast<int8_t>(config.pre_norm));
    file_.add(name + "/activation", activation_type(config.activation));
    file_.add(name + "/scale_embeddings", int8_t{1});
    if (config.pre_norm) norm(name + "/layer_norm", name + "/norm");
  }

 private:
  ModelFile& file_;
  const ModelArrays& arrays_;
  FilePrecision precision_;
};

void write_tables(ModelFile& file, const ModelArrays& arrays, Tie tie, FilePrecision precision) {
  const std::string source = "encoder/embeddings_0/weight";
  const std::string target = "decoder/embeddings/weight";
  const std::string output = "decoder/projection/weight";
  file.add(target, arrays.get(name_of_target_embedding(tie)), precision);
  // The runtime moves the scale with an alias.
  if (tie == Tie::kAll) {
    file.alias(source, target);
  } else {
    file.add(source, arrays.get(kSourceEmbedding), precision);
  }
  if (tie == Tie::kNone) {
    file.add(output, arrays.get(kOutputWeight), precision);
  } else {
    file.alias(output, target);
  }
}

void write_positions(ModelFile& file, const ModelArrays& arrays, const TransformerConfig& config) {
  const std::string encoder = "encoder/position_encodings/encodings";
  const std::string decoder = "decoder/position_encodings/encodings";
  if (config.learned_positions) {
    file.add(encoder, arrays.get("source_positions"));
    file.add(decoder, arrays.get("target_positions"));
    return;
  }
  Array sinusoids{.rows = config.max_positions, .cols = config.d_model, .vector = false, .values = {}};
  sinusoids.values.resize(static_cast<size_t>(sinusoids.rows * sinusoids.cols));
  sinusoidal_positions({sinusoids.values.data(), sinusoids.rows, sinusoids.cols, sinusoids.cols, DType::kF32},
                       config.marian_positions ? Sinusoids::kMarian : Sinusoids::kPaper);
  file.add(decoder, sinusoids);
  file.alias(encoder, decoder);
}

void write_model_file(const std::string& path, const ModelArrays& arrays, const TransformerConfig& config,
                      FilePrecision precision) {
  ModelFile file(path);
  LayerWriter writer(file, arrays, precision);
  write_tables(file, arrays, config.tie, precision);
  if (config.output_bias) file.add("decoder/projection/bias", arrays.get(kOutputBias));
  write_positions(file, arrays, config);
  writer.stack("encoder", config);
  file.add("encoder/embeddings_merge", int8_t{0});
  file.add("encoder/multi_query_attention", int8_t{0});
  for (int i = 0; i < config.encoder_layers; ++i) {
    const std::string to = fmt::format("encoder/layer_{}", i);
    const std::string from = fmt::format("encoder/layers/{}", i);
    writer.self_attention(to + "/self_attention", from + "/self_attention");
    writer.feed_forward(to + "/ffn", from + "/feed_forward");
  }
  writer.stack("decoder", config);
  file.add("decoder/alignment_layer", int16_t{-1});
  file.add("decoder/alignment_heads", int16_t{1});
  for (const char* off : {"alibi", "alibi_use_positive_positions", "scale_alibi"}) {
    file.add(fmt::format("decoder/{}", off), int8_t{0});
  }
  file.add("decoder/start_from_zero_embedding", static_cast<int8_t>(config.zero_start));
  for (int i = 0; i < config.decoder_layers; ++i) {
    const std::string to = fmt::format("decoder/layer_{}", i);
    const std::string from = fmt::format("decoder/layers/{}", i);
    writer.self_attention(to + "/self_attention", from + "/self_attention");
    writer.cross_attention(to + "/attention", from + "/cross_attention");
    writer.feed_forward(to + "/ffn", from + "/feed_forward");
  }
  file.commit();
}

}  // namespace

std::vector<std::string> export_ctranslate2(Context& context, const LoadedModel& model,
                                            const std::string& folder, FilePrecision precision) {
  using nlohmann::json;
  const data::Tokenizer& tokenizer = model.tokenizers->target();
  const ModelArrays arrays(context, model.store, ChannelOrder::kPairs);
  const std::string model_file = folder + "/model.bin";
  write_model_file(model_file, arrays, model.config, precision);
  const std::string begin = tokenizer.piece(tokenizer.begin_id());
  const float epsilon = model.config.layer_norm_epsilon;
  const json config = {{"add_source_bos", false},
                       {"add_source_eos", true},
                       {"bos_token", begin},
                       {"decoder_start_token", begin},
                       {"eos_token", tokenizer.piece(tokenizer.end_id())},
                       {"layer_norm_epsilon",
                        epsilon == kDefaultEpsilon ? json() : json(std::stod(fmt::format("{}", epsilon)))},
                       {"multi_query_attention", false},
                       {"unk_token", tokenizer.piece(tokenizer.unknown_id())}};
  std::vector<std::string> files = {
      model_file, write_in_folder(folder, "config.json", data::utf8_json_text(config, 2) + "\n")};
  const auto write_side = [&](const data::Tokenizer& of_side, const std::string& vocabulary,
                              const std::string& sentencepiece) {
    files.push_back(
        write_in_folder(folder, vocabulary, data::utf8_json_text(json(pieces_of(of_side)), 2) + "\n"));
    files.push_back(write_in_folder(folder, sentencepiece, of_side.model()));
  };
  if (model.tokenizers->shared()) {
    write_side(tokenizer, "shared_vocabulary.json", "sentencepiece.model");
  } else {
    write_side(model.tokenizers->source(), "source_vocabulary.json", "source.spm");
    write_side(tokenizer, "target_vocabulary.json", "target.spm");
  }
  return files;
}

}  // namespace ventris
