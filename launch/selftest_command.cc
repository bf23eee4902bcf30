// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "backend/device.h"
#include "backend/error.h"
#include "backend/instruction_set.h"
#include "launch/command.h"
#include "launch/isa_option.h"
#include "launch/job.h"
#include "launch/output.h"
#include "launch/train_option_table.h"
#include "trainer/checks/selftest.h"
#include "trainer/files/json_text.h"

namespace ventris {

namespace {

constexpr int64_t kMinRows = 64;  // for sentences of several tokens

struct SelftestCommandOptions {
  TrainCommandOptions of_preset;
  std::string precision = "both";
  int64_t rows = 0;
  std::string device = "auto";
  int threads = 0;
  std::string isa = "auto";
  bool json = false;
};

std::string result_line(const KernelResult& result) {
  std::string line = fmt::format("{:<6}  {:<22} {:<22} {:<4}  ", result.ok() ? "ok" : "FAILED", result.kernel,
                                 result.shape, result.dtype);
  line += std::isfinite(result.error) ? fmt::format("error {:.2g} of its tolerance", result.error)
                                      : "not comparable";
  return line + (result.ok() ? "" : ": " + result.finding) + "\n";
}

int run_selftest(SelftestCommandOptions& options, Job& job) {
  options.of_preset.train.model.validate();
  if (options.rows > 0 && options.rows < kMinRows)
    fail(ExitCode::kUsage, "--rows is {}; it must be 0, or {} or more", options.rows, kMinRows);
  const std::unique_ptr<Context> context = make_context(job, options.device, options.threads, options.isa);
  SelftestOptions what{
      .model = options.of_preset.train.model,
      .rows = options.rows > 0 ? options.rows : selftest_rows(options.of_preset.train, *context)};
  if (options.precision != "both")
    what.precisions = {
        resolved_precision(precision_named(options.precision), Precision::kAuto, context->device())};
  const std::string device =
      context->device() == Device::kCpu ? "the CPU with " + instruction_set() : "the CUDA device";
  nlohmann::json kernels = nlohmann::json::array();
  int64_t wrong = 0;
  const auto tell = [&](const KernelResult& result) {
    wrong += result.ok() ? 0 : 1;
    if (!options.json) write_output(result_line(result));
    kernels.push_back({{"kernel", result.kernel},
                       {"shape", result.shape},
                       {"dtype", result.dtype},
                       {"error", result.error},
                       {"ok", result.ok()},
                       {"finding", result.finding}});
  };
  const size_t count = selftest(*context, what, tell).size();
  if (options.json) {
    const nlohmann::json object = {
        {"device", name_of(context->device())}, {"ok", wrong == 0}, {"kernels", kernels}};
    write_output(json_text(object) + "\n");
  }
  if (wrong == 0) {
    say(job, fmt::format("All {} kernels compute as they should on {}", count, device));
    return 0;
  }
  say(job,
      fmt::format("{} of {} kernels compute wrongly on {}: do not train there. The hardware, the driver, "
                  "a library or the compiler of this program is at fault; try another device or build, "
                  "and report it if it stays",
                  wrong, count, device));
  return static_cast<int>(ExitCode::kRanksDisagree);
}

}  // namespace

Command selftest_command() {
  const auto options = std::make_shared<SelftestCommandOptions>();
  Command command;
  command.name = "selftest";
  command.summary = "compares every kernel with plain loops, at the shapes of a preset";
  command.synopsis =
      "[--device auto|cpu|cuda] [--preset tiny|small|base|big] [--precision both|f32|tf32|bf16]";
  command.description = {
      "Runs every operation of training and translation on the device, forward and backward, at the widths "
      "of a preset, and compares all results with plain loops over f64 on the CPU. It needs no corpus. "
      "Each kernel has a line: its shape (m x n x k of a product), its dtype and its greatest error, where "
      "1 is the tolerance. It takes less than a minute, and less than 1 GiB of memory for big on the CPU.",
      "Products have --rows rows, so that a CUDA device chooses the algorithms of training for them; 127 of "
      "the rows differ. Other kernels have a sample of rows: 1,500 tokens, and 150 rows of logits. "
      "Results hold NaN before they are computed: what is not written is found.",
      "It tests the first device that the process may use; CUDA_VISIBLE_DEVICES selects another one. "
      "'ventris doctor' does the same at small shapes on all devices of a job."};
  command.examples = {
      {"selftest --preset base", "Before a run:"},
      {"selftest --device cpu --isa avx2 --precision f32", "The kernels of one instruction set:"}};
  command.exit_codes = {{69, "there is no such device, or too little memory"},
                        {76, "a kernel computes wrongly; its line says FAILED and where"}};
  OptionTable& table = command.options;
  table.group("Shapes");
  TrainOptions& train = options->of_preset.train;
  TransformerConfig& model = train.model;
  table.choice("preset", train.preset, preset_names(), "Widths and batches of this preset of train.");
  table.integer("d-model", model.d_model, {.min = 2, .max = 16384}, "As for train.").from_preset = true;
  table.integer("d-ff", model.d_ff, {.min = 1, .max = 65536}, "As for train.").from_preset = true;
  table.integer("heads", model.heads, {.min = 1, .max = 256}, "As for train.").from_preset = true;
  table.integer("vocab-size", model.vocab_size, {.min = 64, .max = 1 << 20}, "Tokens of the vocabulary.");
  table.choice("precision", options->precision, {"both", "f32", "tf32", "bf16"},
               "Precision, as for train. both: f32 and bf16. tf32, on CUDA: f32 with the products of tf32.");
  table.integer(
      "rows", options->rows, {.min = 0, .max = 1 << 20},
      "Rows of products, at least 64; those of a run are micro_batch_source_rows of 'ventris plan --json'. "
      "0: on CUDA those of the preset's batches on one device; on the CPU 1,100.");
  table.group("Machine");
  table.choice("device", options->device, {"auto", "cpu", "cuda"}, "Device to test, as for train.");
  table.integer("threads", options->threads, {.min = 0, .max = 1024},
                "CPU threads, also of the loops; 0: all that the process may use.");
  add_isa_option(options->isa, table);
  table.toggle("json", options->json, "Prints one JSON object at the end; an error of null is not finite.");
  command.before_store = [options](const std::string& preset) { take_preset(options->of_preset, preset); };
  command.run = [options](Job& job) { return run_selftest(*options, job); };
  return command;
}

}  // namespace ventris
