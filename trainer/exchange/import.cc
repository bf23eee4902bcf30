// SPDX-License-Identifier: Apache-2.0
#include "trainer/exchange/import.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <vector>

#include "backend/device/error.h"
#include "data/io/atomic_file.h"
#include "data/io/file_io.h"
#include "data/io/hdf5_reader.h"
#include "data/io/npz.h"
#include "model/transformer_parameters.h"
#include "trainer/checkpoint/model_arrays.h"
#include "trainer/checkpoint/weights.h"
#include "trainer/exchange/marian_config.h"
#include "trainer/exchange/marian_names.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;

std::string text_of_bytes(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

/// The first name that is not empty.
std::string first_of(const std::string& a, const std::string& b, const std::string& otherwise) {
  return !a.empty() ? a : !b.empty() ? b : otherwise;
}

std::string beside(const std::string& model, const char* name) {
  return (fs::path(model).parent_path() / name).string();
}

/// An f32 matrix, ignoring leading dimensions of size 1.
Array f32_matrix(const data::NpzFile& file, const std::string& name, int64_t rows, int64_t cols) {
  const data::NpzArray array = file.read(name);
  std::vector<int64_t> shape = array.shape;
  while (shape.size() > 2 && shape.front() == 1) shape.erase(shape.begin());
  if (shape.size() == 1) shape.insert(shape.begin(), 1);
  if (array.type != "<f4" || array.fortran_order || shape != std::vector<int64_t>{rows, cols}) {
    fail(ExitCode::kBadData, "{}: array {} is not of f32 with shape [{}, {}] in rows", file.origin(), name,
         rows, cols);
  }
  Array matrix{.rows = rows, .cols = cols, .vector = false, .values = {}};
  matrix.values.resize(array.data.size() / sizeof(float));
  std::memcpy(matrix.values.data(), array.data.data(), array.data.size());
  return matrix;
}

/// The name of a parameter's array in this file.
std::string npz_name(const data::NpzFile& file, const std::string& parameter, bool pre_norm) {
  std::string name = marian_name(parameter, pre_norm);
  const bool of_old_version =
      parameter == kOutputWeight && !file.contains(name) && file.contains(kMarianTransposedOutputWeight);
  return of_old_version ? kMarianTransposedOutputWeight : name;
}

/// A parameter in Marian's order of rows.
Array read_npz_parameter(const data::NpzFile& file, const LogicalParameter& parameter, bool pre_norm) {
  const std::string name = npz_name(file, parameter.name, pre_norm);
  if (name != kMarianTransposedOutputWeight) return f32_matrix(file, name, parameter.rows, parameter.cols);
  return transposed(f32_matrix(file, name, parameter.cols, parameter.rows));
}

/// Refuses a file whose arrays are not those of its configuration: a model without one of them, or with
/// another one, is another model. `bias`: whether the configuration has one, also if the store has none.
void check_arrays(const data::NpzFile& file, const ParameterStore& store, bool pre_norm, bool bias) {
  std::vector<std::string> needed;
  for (const LogicalParameter& parameter : store.logical())
    needed.push_back(npz_name(file, parameter.name, pre_norm));
  if (bias) needed.emplace_back(kMarianOutputBias);
  std::string what;
  bool of_bias = false;
  const auto differs = [&](const std::string& name, const char* how) {
    what += fmt::format("{}array '{}' is {}", what.empty() ? "" : " and ", name, how);
    of_bias = of_bias || name == kMarianOutputBias;
  };
  const auto missing =
      std::ranges::find_if_not(needed, [&](const auto& name) { return file.contains(name); });
  const auto unknown = std::ranges::find_if(file.names(), [&](const std::string& name) {
    return !name.starts_with(kMarianSpecial) && std::ranges::find(needed, name) == needed.end();
  });
  if (missing != needed.end()) differs(*missing, "missing");
  if (unknown != file.names().end()) differs(*unknown, "unknown");
  if (what.empty()) return;
  fail(ExitCode::kBadData,
       "{}: {}; expected exactly the arrays of the model that {} in the file describes{}. The file is "
       "damaged, was changed, or is of a model that ours cannot compute",
       file.origin(), what, kMarianConfig,
       of_bias ? fmt::format(" (output-omit-bias: {})", bias ? "false" : "true") : "");
}

/// The bias of Marian's output layer by its ids, or empty if it has none or only zeros.
std::vector<float> output_bias(const data::NpzFile& file, const TransformerConfig& config) {
  if (!config.output_bias || !file.contains(kMarianOutputBias)) return {};
  std::vector<float> bias = f32_matrix(file, kMarianOutputBias, 1, config.vocab_size).values;
  const bool zeros = std::all_of(bias.begin(), bias.end(), [](float x) { return x == 0.0F; });
  return zeros ? std::vector<float>() : bias;
}

/// What a model of Marian has of a side: the bytes of its SentencePiece model, and the path of its vocabulary
/// in YAML or "".
struct Side {
  std::string tokenizer;
  std::string vocabulary;
  bool operator==(const Side&) const = default;
};

Side read_side(const ImportOptions& options, const MarianFiles& given, const char* tokenizer,
               const char* vocabulary) {
  const std::string path =
      first_of(given.tokenizer, options.both.tokenizer, beside(options.input, tokenizer));
  const std::string written = beside(options.input, vocabulary);
  return {.tokenizer = text_of_bytes(data::read_file(path, data::kMaxTokenizerBytes)),
          .vocabulary = first_of(given.vocabulary, options.both.vocabulary,
                                 data::is_there(written) ? written : std::string())};
}

struct Sides {
  Side source;
  Side target;
};

Sides read_sides(const ImportOptions& options, bool one_table) {
  if (one_table) {
    if (!options.source.empty() || !options.target.empty()) {
      fail(ExitCode::kUsage,
           "{}: its tables of source, target and output are one, so that it has one vocabulary: give "
           "--tokenizer-model and --vocabulary, without source or target",
           options.input);
    }
    const Side both = read_side(options, {}, kMarianSourceTokenizer, kMarianVocabulary);
    return {both, both};
  }
  Sides sides = {read_side(options, options.source, kMarianSourceTokenizer, kMarianSourceVocabulary),
                 read_side(options, options.target, kMarianTargetTokenizer, kMarianTargetVocabulary)};
  const std::string of_both = beside(options.input, kMarianVocabulary);
  if (sides.source.tokenizer == sides.target.tokenizer && data::is_there(of_both)) {
    for (Side* side : {&sides.source, &sides.target}) {
      if (side->vocabulary.empty()) side->vocabulary = of_both;
    }
  }
  return sides;
}

/// Marian's ids of our tokens: from the vocabulary, otherwise from the SentencePiece model, which Marian also
/// accepts as a vocabulary. `side` is "source" or "target" of two vocabularies, and "" of one.
std::vector<int32_t> token_ids(const std::string& path, const data::Tokenizer& tokenizer,
                               const std::string& side) {
  if (path.empty()) {
    std::vector<int32_t> same(static_cast<size_t>(tokenizer.vocab_size()));
    std::iota(same.begin(), same.end(), 0);
    return same;
  }
  return marian_token_ids(text_of_bytes(data::read_file(path, data::kMaxTokenizerBytes)),
                          side.empty() ? path : fmt::format("{}, the {} vocabulary", path, side),
                          tokenizer.vocab_size(),
                          [&](std::string_view token) { return tokenizer.find(token); });
}

std::unique_ptr<LoadedModel> import_marian(Context& context, const ImportOptions& options) {
  auto model = std::make_unique<LoadedModel>();
  model->path = options.input;
  const std::vector<uint8_t> bytes = data::read_file(options.input, data::kAnyBytes);
  const data::NpzFile file(bytes, options.input);
  TransformerConfig config = marian_config(text_of_bytes(file.read(kMarianConfig).data), options.input);
  const Sides sides = read_sides(options, config.tie == Tie::kAll);
  const bool shared = sides.source == sides.target && config.source_vocab() == config.vocab_size;
  if (shared) config.source_vocab_size = 0;
  const bool has_bias = config.output_bias;
  const std::vector<float> bias = output_bias(file, config);
  config.output_bias = !bias.empty();
  begin_loading(*model, context, config,
                {.target = sides.target.tokenizer, .source = shared ? std::string() : sides.source.tokenizer},
                DType::kF32, file.array_bytes());
  check_arrays(file, model->store, config.pre_norm, has_bias);
  const std::vector<int32_t> source_ids =
      token_ids(sides.source.vocabulary, model->tokenizers->source(), shared ? "" : "source");
  const std::vector<int32_t> ids =
      token_ids(sides.target.vocabulary, model->tokenizers->target(), shared ? "" : "target");
  fill_parameters(context, model->store, model->store.values(), options.input, ChannelOrder::kSinesFirst,
                  [&](const LogicalParameter& parameter, std::vector<float>& values) {
                    if (parameter.name == kOutputBias) {
                      std::transform(ids.begin(), ids.end(), values.begin(),
                                     [&](int32_t id) { return bias[static_cast<size_t>(id)]; });
                      return;
                    }
                    const Array read = read_npz_parameter(file, parameter, config.pre_norm);
                    if (!is_table(parameter.name)) {
                      values = read.values;
                      return;
                    }
                    const std::vector<int32_t>& rows = parameter.name == kSourceEmbedding ? source_ids : ids;
                    for (size_t token = 0; token < rows.size(); ++token) {
                      std::copy_n(read.values.data() + rows[token] * parameter.cols, parameter.cols,
                                  values.data() + static_cast<int64_t>(token) * parameter.cols);
                    }
                  });
  return model;
}

}  // namespace

bool is_npz(const std::string& path) {
  char begin[4] = {};
  const data::FileHandle file = data::open_to_read(path);
  return file.valid() && ::pread(file.fd(), begin, 4, 0) == 4 && std::memcmp(begin, "PK\x03\x04", 4) == 0;
}

std::unique_ptr<LoadedModel> import_model(Context& context, const ImportOptions& options) {
  if (is_npz(options.input)) return import_marian(context, options);
  if (!options.both.empty() || !options.source.empty() || !options.target.empty()) {
    fail(ExitCode::kUsage,
         "{}: --vocabulary, --tokenizer-model and those of a side are for a model of Marian (.npz) only",
         options.input);
  }
  return load_model(context, options.input, DType::kF32);
}

data::TokenizerModels tokenizer_models_of(const std::string& path) {
  std::error_code error;  // of a missing file
  const std::string file = fs::is_directory(path, error) ? resolve_model_file(path) : path;
  if (!is_npz(file) && !is_safetensors(file)) return read_tokenizer_models(data::Hdf5Reader(file));
  Context host(ContextOptions{.threads = 1});
  return import_model(host, {.input = file})->tokenizers->models();
}

}  // namespace ventris
