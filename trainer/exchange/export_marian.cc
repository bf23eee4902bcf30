// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

#include "data/io/npz.h"
#include "trainer/exchange/export_formats.h"
#include "trainer/exchange/marian_names.h"

// A model as Marian trains it: model.npz with the configuration inside, the vocabularies in YAML.

namespace ventris {
namespace {

/// A double-quoted YAML scalar.
std::string yaml_quoted(const std::string& text) {
  std::string quoted = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c1 = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (byte < 0x20 || byte == 0x7F) {
      quoted += fmt::format("\\x{:02X}", byte);
    } else if (c1) {  // U+0080 to U+009F, which YAML does not print
      quoted += fmt::format("\\x{:02X}", static_cast<unsigned char>(text[++i]));
    } else {
      if (byte == '"' || byte == '\\') quoted += '\\';
      quoted += text[i];
    }
  }
  return quoted + "\"";
}

/// The keys of the shape of a model, with those that older versions expect. No keys of training or search, as
/// keys in the model override the user's options.
std::string yaml_of(const TransformerConfig& config) {
  return fmt::format(
      "dec-cell: gru\n"
      "dec-cell-base-depth: 2\n"
      "dec-cell-high-depth: 1\n"
      "dec-depth: {decoder_layers}\n"
      "dim-emb: {d_model}\n"
      "dim-rnn: 1024\n"
      "dim-vocabs:\n"
      "  - {source_tokens}\n"
      "  - {tokens}\n"
      "enc-cell: gru\n"
      "enc-cell-depth: 1\n"
      "enc-depth: {encoder_layers}\n"
      "enc-type: bidirectional\n"
      "input-types:\n"
      "  []\n"
      "layer-normalization: false\n"
      "lemma-dim-emb: 0\n"
      "output-omit-bias: false\n"
      "right-left: false\n"
      "skip: false\n"
      "tied-embeddings: {tied_decoder}\n"
      "tied-embeddings-all: {tied_all}\n"
      "tied-embeddings-src: false\n"
      "transformer-aan-activation: swish\n"
      "transformer-aan-depth: 2\n"
      "transformer-aan-nogate: false\n"
      "transformer-decoder-autoreg: self-attention\n"
      "transformer-dim-aan: 2048\n"
      "transformer-dim-ffn: {d_ff}\n"
      "transformer-ffn-activation: {activation}\n"
      "transformer-ffn-depth: 2\n"
      "transformer-guided-alignment-layer: last\n"
      "transformer-heads: {heads}\n"
      "transformer-no-projection: false\n"
      "transformer-postprocess: {postprocess}\n"
      "transformer-postprocess-emb: d\n"
      "transformer-postprocess-top: \"{top}\"\n"
      "transformer-preprocess: \"{preprocess}\"\n"
      "transformer-tied-layers:\n"
      "  []\n"
      "transformer-train-position-embeddings: false\n"
      "type: transformer\n"
      "ulr: false\n"
      "ulr-dim-emb: 0\n"
      "ulr-trainable-transformation: false\n"
      "version: v1.12.0\n",
      fmt::arg("decoder_layers", config.decoder_layers), fmt::arg("d_model", config.d_model),
      fmt::arg("source_tokens", config.source_vocab()), fmt::arg("tokens", config.vocab_size),
      fmt::arg("tied_decoder", config.tie == Tie::kDecoder), fmt::arg("tied_all", config.tie == Tie::kAll),
      fmt::arg("encoder_layers", config.encoder_layers), fmt::arg("d_ff", config.d_ff),
      fmt::arg("heads", config.heads), fmt::arg("activation", name_of(config.activation)),
      fmt::arg("postprocess", config.pre_norm ? "da" : "dan"), fmt::arg("top", config.pre_norm ? "n" : ""),
      fmt::arg("preprocess", config.pre_norm ? "n" : ""));
}

std::string write_arrays(const std::string& path, Context& context, const LoadedModel& model) {
  const ModelArrays arrays(context, model.store, ChannelOrder::kSinesFirst);
  data::NpzWriter writer(path);
  for (const LogicalParameter& parameter : arrays.logical()) {
    const Array array = arrays.get(parameter.name);
    writer.add(marian_name(parameter.name, model.config.pre_norm), "<f4",
               std::vector<int64_t>{array.rows, array.cols}, array.values.data(),
               array.values.size() * sizeof(float));
  }
  if (!model.config.output_bias) {
    const std::vector<float> no_bias(static_cast<size_t>(model.config.vocab_size), 0.0F);
    writer.add(kMarianOutputBias, "<f4", std::vector<int64_t>{1, model.config.vocab_size}, no_bias.data(),
               no_bias.size() * sizeof(float));
  }
  const std::string config = yaml_of(model.config);
  const size_t bytes = config.size() + 1;  // ends with NUL
  writer.add(kMarianConfig, "|i1", std::vector<int64_t>{static_cast<int64_t>(bytes)}, config.c_str(), bytes);
  writer.commit();
  return path;
}

/// YAML of all tokens with their ids, one a line.
std::string vocabulary_lines(const data::Tokenizer& tokenizer) {
  std::string vocabulary;
  int id = 0;
  for (const std::string& piece : pieces_of(tokenizer)) {
    vocabulary += fmt::format("{}: {}\n", yaml_quoted(piece), id++);
  }
  return vocabulary;
}

}  // namespace

std::vector<std::string> export_marian(Context& context, const LoadedModel& model,
                                       const std::string& folder) {
  std::vector<std::string> files = {write_arrays(folder + "/model.npz", context, model)};
  const data::TokenizerPair& tokenizers = *model.tokenizers;
  if (tokenizers.shared()) {
    files.push_back(write_in_folder(folder, kMarianVocabulary, vocabulary_lines(tokenizers.target())));
  } else {
    files.push_back(write_in_folder(folder, kMarianSourceVocabulary, vocabulary_lines(tokenizers.source())));
    files.push_back(write_in_folder(folder, kMarianTargetVocabulary, vocabulary_lines(tokenizers.target())));
  }
  files.push_back(write_in_folder(folder, "decoder.yml",
                                  "relative-paths: true\n"
                                  "models:\n"
                                  "  - model.npz\n"
                                  "vocabs:\n"
                                  "  - source.spm\n"
                                  "  - target.spm\n"
                                  "beam-size: 4\n"
                                  "normalize: 0.6\n"));
  files.push_back(write_in_folder(folder, kMarianSourceTokenizer, tokenizers.source().model()));
  files.push_back(write_in_folder(folder, kMarianTargetTokenizer, tokenizers.target().model()));
  return files;
}

}  // namespace ventris
