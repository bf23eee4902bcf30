#include <nlohmann/json.hpp>

#include <memory>

#include "launch/command.h"
#include "launch/job.h"
#include "launch/output.h"
#include "trainer/weights.h"

namespace ventris {

namespace {

struct Options {
  std::string model;
  std::string output;
  bool json = false;
};

int run_export(const Options& options, const Job& job) {
  const std::unique_ptr<Context> context = make_context(job, "cpu", 1);
  const std::unique_ptr<LoadedModel> model = load_model(*context, options.model, DType::kF32);
  save_weights(*context, options.output, model->config, model->store, model->tokenizer->model(),
               job.provenance(), model->averaged_checkpoints);
  const int64_t parameters = model->store.parameter_count();
  if (options.json) {
    const nlohmann::json result = {{"output", options.output},
                                   {"model", model->path},
                                   {"tensors", model->store.logical().size()},
                                   {"parameters", parameters}};
    write_output(result.dump() + "\n");
  } else {
    write_output(fmt::format("{}: {} parameters in {} tensors, from {}\n", options.output,
                             grouped(parameters), model->store.logical().size(), model->path));
  }
  return 0;
}

}  // namespace

Command export_command() {
  const auto options = std::make_shared<Options>();
  Command command;
  command.name = "export";
  command.summary = "writes a trained model as one HDF5 file of weights";
  command.synopsis = "--model FILE|DIR --output FILE";
  command.description = {
      "Writes everything that 'translate' needs into one file: the parameters in f32, one dataset each, such "
      "as /model/encoder/layers/0/self_attention/query/weight, the configuration, and the tokenizer. h5py, "
      "h5dump and every other HDF5 reader open it (docs/file-formats.md). Translations from it equal those "
      "from the checkpoint, byte for byte."};
  command.examples = {{"export --model model --output weights.h5", "The best checkpoint of a run:"}};
  OptionTable& table = command.options;
  table.group("Input and output");
  table
      .text("model", "FILE|DIR", options->model,
            "A checkpoint, a weights file, or a run folder, which means its best checkpoint, or the newest "
            "where none was validated.")
      .required = true;
  table.text("output", "FILE", options->output, "The weights file.").required = true;
  table.toggle("json", options->json, "Prints one JSON object.");
  command.run = [options](Job& job) { return run_export(*options, job); };
  return command;
}

}  // namespace ventris
