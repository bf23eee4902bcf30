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

/// A matrix of f32, whatever dimensions of size 1 are before it.
std::vector<float> f32_values(const data::NpzFile& file, const std::string& name, int64_t rows,
                              int64_t cols) {
  const data::NpzArray array = file.read(name);
  std::vector<int64_t> shape = array.shape;
  while (shape.size() > 2 && shape.front() == 1) shape.erase(shape.begin());
  if (shape.size() == 1) shape.insert(shape.begin(), 1);
  if (array.type != "<f4" || array.fortran_order || shape != std::vector<int64_t>{rows, cols}) {
    fail(ExitCode::kBadData, "{}: array {} is not of f32 with shape [{}, {}] in rows", file.origin(), name,
         rows, cols);
  }
  std::vector<float> values(array.data.size() / sizeof(float));
  std::memcpy(values.data(), array.data.data(), array.data.size());
  return values;
}

/// Our words' rows of Marian's embedding: its ids are those of its own vocabulary.
std::vector<int64_t> rows_of_words(const data::Tokenizer& tokenizer, const MarianVocabulary& vocabulary,
                                   const std::string& origin) {
  if (std::ssize(vocabulary) != tokenizer.vocab_size()) {
    fail(ExitCode::kBadData, "{}: the vocabulary has {} words, but the SentencePiece model has {}", origin,
         vocabulary.size(), tokenizer.vocab_size());
  }
  std::vector<int64_t> rows;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const auto found = vocabulary.find(tokenizer.piece(id));
    if (found == vocabulary.end()) {
      fail(ExitCode::kBadData, "{}: the word '{}' of the SentencePiece model is not in the vocabulary",
           origin, tokenizer.piece(id));
    }
    rows.push_back(found->second);
  }
  return rows;
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
  begin_loading(*model, context, config, std::move(tokenizer), DType::kF32, 4 * bytes.size());
  // Now the number of words is known to fit the size of the file, and the vocabulary, which takes some ten
  // times its text, has no more.
  const MarianVocabulary vocabulary =
      marian_vocabulary(text_of(data::read_file(vocabulary_path)), vocabulary_path, config.vocab_size);
  const std::vector<int64_t> rows = rows_of_words(*model->tokenizer, vocabulary, vocabulary_path);

  if (file.contains(kMarianOutputBias)) {
    const std::vector<float> bias = f32_values(file, kMarianOutputBias, 1, config.vocab_size);
    if (!std::all_of(bias.begin(), bias.end(), [](float x) { return x == 0.0F; })) {
      fail(ExitCode::kBadData,
           "{}: {} is not zero: our output layer has no bias (Marian trains none with --output-omit-bias)",
           options.input, kMarianOutputBias);
    }
  }
  fill_parameters(
      context, model->store, model->store.values(), options.input, ChannelOrder::kSinesFirst,
      [&](const LogicalParameter& parameter, std::vector<float>& values) {
        const std::string name = marian_name(parameter.name, config.pre_norm);
        const std::vector<float> read = f32_values(file, name, parameter.rows, parameter.cols);
        if (parameter.name != "embedding") {
          values = read;
          return;
        }
        for (size_t word = 0; word < rows.size(); ++word) {
          std::copy_n(read.begin() + rows[word] * parameter.cols, parameter.cols,
                      values.begin() + static_cast<int64_t>(word) * parameter.cols);
        }
        const auto begin = values.begin() + config.zero_word * parameter.cols;
        if (!std::all_of(begin, begin + parameter.cols, [](float x) { return x == 0.0F; })) {
          fail(ExitCode::kBadData,
               "{}: the embedding of the begin mark is not zero, but Marian begins with zeros: our "
               "model needs one word for both",
               options.input);
        }
      });
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
