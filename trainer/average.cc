#include <iterator>
#include <vector>

#include "backend/context.h"
#include "backend/error.h"
#include "data/hdf5_file.h"
#include "model/transformer_parameters.h"
#include "trainer/checkpoint.h"
#include "trainer/model_files.h"
#include "trainer/model_set.h"
#include "trainer/run_folder.h"
#include "trainer/weights.h"

namespace ventris {

void average_checkpoints(const std::vector<std::string>& paths, const std::string& output,
                         const std::string& provenance) {
  if (paths.empty()) fail(ExitCode::kUsage, "there are no checkpoints to average");
  check_is_no_file_of_a_run(output);
  Context cpu(ContextOptions{});
  TransformerConfig config;
  std::string tokenizer_model;
  ParameterStore store;
  std::vector<double> sums;
  for (const std::string& path : paths) {
    const data::Hdf5Reader reader(path);
    const TransformerConfig in_file = read_config(reader);
    if (sums.empty()) {
      config = in_file;
      tokenizer_model = read_tokenizer_model(reader);
      declare_transformer(config, store);
      store.allocate(cpu.device(), DType::kF32, /*gradients=*/false);
      sums.assign(static_cast<size_t>(store.flat_size()), 0.0);
    }
    const std::string other_tokenizer = read_tokenizer_model(reader);
    if (other_tokenizer != tokenizer_model) {
      const std::string difference = vocabulary_difference(data::Tokenizer(tokenizer_model, paths.front()),
                                                           data::Tokenizer(other_tokenizer, path));
      fail(ExitCode::kBadData,
           "{}: has another tokenizer than {}, so their parameters cannot be averaged: {}", path,
           paths.front(),
           difference.empty() ? "the words are the same, but text is cut into them in another way"
                              : difference);
    }
    check_same_network(in_file, config, path);
    read_model(cpu, reader, store);
    const float* values = store.values().as<float>();
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(values[i]);
  }
  float* values = store.values().as<float>();
  const double count = static_cast<double>(paths.size());
  for (size_t i = 0; i < sums.size(); ++i) values[i] = static_cast<float>(sums[i] / count);
  save_weights(cpu, output, config, store, tokenizer_model, provenance, /*probes=*/"", std::ssize(paths));
}

}  // namespace ventris
