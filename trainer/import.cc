#include "trainer/import.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "backend/error.h"
#include "data/atomic_file.h"
#include "data/npz.h"
#include "trainer/marian_config.h"
#include "trainer/marian_names.h"
#include "trainer/model_arrays.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;

bool is_zip(const std::string& path) {
  char begin[4] = {};
  std::ifstream file(path, std::ios::binary);
  return file.read(begin, 4) && std::memcmp(begin, "PK\x03\x04", 4) == 0;
}

std::string text_of(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

std::string beside(const std::string& given, const std::string& model, const char* name) {
  return given.empty() ? (fs::path(model).parent_path() / name).string() : given;
}

/// The bytes of a matrix of f32, whatever dimensions of size 1 are before it.
std::vector<uint8_t> f32_matrix(const data::NpzFile& file, const std::string& name, int64_t rows,
                                int64_t cols) {
  data::NpzArray array = file.read(name);
  std::vector<int64_t> shape = array.shape;
  while (shape.size() > 2 && shape.front() == 1) shape.erase(shape.begin());
  if (shape.size() == 1) shape.insert(shape.begin(), 1);
  if (array.type != "<f4" || array.fortran_order || shape != std::vector<int64_t>{rows, cols}) {
    fail(ExitCode::kBadData, "{}: array {} is not of f32 with shape [{}, {}] in rows", file.origin(), name,
         rows, cols);
  }
  return std::move(array.data);
}

std::unique_ptr<LoadedModel> import_marian(Context& context, const ImportOptions& options) {
  auto model = std::make_unique<LoadedModel>();
  model->path = options.input;
  const std::vector<uint8_t> bytes = data::read_file(options.input);
  const data::NpzFile file(bytes, options.input);
  TransformerConfig config = marian_config(text_of(file.read(kMarianConfig).data), options.input);
  const std::string vocabulary_path = beside(options.vocabulary, options.input, "vocab.yml");
  const std::string tokenizer_path = beside(options.tokenizer, options.input, "source.spm");
  std::string tokenizer = text_of(data::read_file(tokenizer_path));
  config.zero_word = data::Tokenizer(tokenizer, tokenizer_path).begin_id();
  begin_loading(*model, context, config, std::move(tokenizer), DType::kF32, file.array_bytes());
  const std::vector<uint8_t> vocabulary = data::read_file(vocabulary_path);
  // Our words' rows of Marian's embedding.
  const std::vector<int32_t> rows = marian_word_ids(
      {reinterpret_cast<const char*>(vocabulary.data()), vocabulary.size()}, vocabulary_path,
      model->tokenizer->vocab_size(), [&](std::string_view word) { return model->tokenizer->find(word); });

  if (file.contains(kMarianOutputBias)) {
    const std::vector<uint8_t> bias = f32_matrix(file, kMarianOutputBias, 1, config.vocab_size);
    for (size_t i = 0; i < bias.size(); i += sizeof(float)) {
      float value = 0.0F;
      std::memcpy(&value, bias.data() + i, sizeof(float));
      if (value == 0.0F) continue;
      fail(ExitCode::kBadData,
           "{}: {} is not zero: our output layer has no bias (Marian trains none with --output-omit-bias)",
           options.input, kMarianOutputBias);
    }
  }
  fill_parameters(
      context, model->store, model->store.values(), options.input, ChannelOrder::kSinesFirst,
      [&](const LogicalParameter& parameter, std::vector<float>& values) {
        const std::string name = marian_name(parameter.name, config.pre_norm);
        const std::vector<uint8_t> read = f32_matrix(file, name, parameter.rows, parameter.cols);
        if (parameter.name != "embedding") {
          std::memcpy(values.data(), read.data(), read.size());
          return;
        }
        const size_t row_bytes = static_cast<size_t>(parameter.cols) * sizeof(float);
        for (size_t word = 0; word < rows.size(); ++word) {
          std::memcpy(values.data() + word * static_cast<size_t>(parameter.cols),
                      read.data() + static_cast<size_t>(rows[word]) * row_bytes, row_bytes);
        }
        const auto begin = values.begin() + config.zero_word * parameter.cols;
        if (!std::all_of(begin, begin + parameter.cols, [](float x) { return x == 0.0F; })) {
          fail(ExitCode::kBadData,
               "{}: the embedding of the begin mark is not zero, but Marian begins with zeros: our "
               "model needs one word for both",
               options.input);
        }
      },
      OnFailure::kLoseValues);
  return model;
}

}  // namespace

std::unique_ptr<LoadedModel> import_model(Context& context, const ImportOptions& options) {
  if (is_zip(options.input)) return import_marian(context, options);
  if (!options.vocabulary.empty() || !options.tokenizer.empty()) {
    fail(ExitCode::kUsage, "{}: --vocabulary and --tokenizer-model are for a model of Marian (.npz) only",
         options.input);
  }
  return load_model(context, options.input, DType::kF32);
}

}  // namespace ventris
