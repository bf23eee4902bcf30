// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "backend/device/error.h"
#include "data/io/atomic_file.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/options/decoding_options.h"
#include "launch/output.h"
#include "launch/pages/page.h"
#include "launch/pages/run_record.h"
#include "launch/pages/sentence_view.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/inference/model_set.h"
#include "trainer/text.h"

namespace ventris {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kMaxShownCheckpoints = 24;
/// Limit on the weights of all maps of a page with several checkpoints. The model of the run always keeps its
/// maps; of the other checkpoints, the newest that fit keep theirs.
constexpr size_t kMaxMapBytes = size_t{32} << 20;

struct AttentionCommandOptions {
  std::string model;
  DecodingOptions decoding;
  SentenceTexts sentence;
  std::string output;
  int checkpoints = 1;
};

/// Which files are shown.
struct ShownModels {
  std::vector<std::string> paths;  // by step
  size_t model = 0;                // the one that other commands take
  bool is_best = false;
  size_t in_folder = 1;
};

/// At most `most` of 0 to size - 1, rising and evenly spread, with `model` in place of the nearest; with the
/// first and the last if there is room.
std::vector<int64_t> numbers_around(int64_t model, int64_t size, int64_t most) {
  std::vector<int64_t> numbers = evenly_spread(size, most, /*with_ends=*/true);
  if (std::ranges::find(numbers, model) != numbers.end()) return numbers;
  const std::ptrdiff_t ends = numbers.size() >= 3 ? 1 : 0;
  *std::ranges::min_element(numbers.begin() + ends, numbers.end() - ends, {},
                            [&](int64_t number) { return std::abs(number - model); }) = model;
  return numbers;
}

ShownModels shown_models(const std::string& folder, int most) {
  if (most == 1) return {.paths = {folder}};
  if (!std::filesystem::is_directory(folder))
    fail(ExitCode::kUsage, "--checkpoints {} needs a run folder; {} is none", most, folder);
  const std::vector<std::string> all = list_checkpoints(folder);
  if (all.empty()) fail(ExitCode::kMissingInput, "{}: has no checkpoint yet", folder);
  const auto best = std::ranges::find(all, read_best(folder));
  ShownModels shown{.paths = {}, .is_best = best != all.end(), .in_folder = all.size()};
  const auto model = shown.is_best ? best - all.begin() : std::ssize(all) - 1;
  for (const int64_t number : numbers_around(model, std::ssize(all), most)) {
    if (number == model) shown.model = shown.paths.size();
    shown.paths.push_back(all[static_cast<size_t>(number)]);
  }
  return shown;
}

int run_attention(AttentionCommandOptions& options, Job& job) {
  SentenceTexts& sentence = options.sentence;
  sentence = {one_line(sentence.source, "--source"), one_line(sentence.reference, "--target")};
  check_can_create(options.output);
  options.decoding.models = {options.model};
  const std::unique_ptr<Context> context = make_decoding_context(job, options.decoding);
  const ShownModels shown = shown_models(options.model, options.checkpoints);
  OrderedJson views = OrderedJson::array();
  for (const std::string& path : shown.paths) views.push_back({{"file", path}, {"problem", ""}});
  SentenceView of_model;
  size_t room = kMaxMapBytes;
  bool leaves_out = false;
  std::vector<size_t> order = {shown.model};
  for (size_t i = shown.paths.size(); i-- > 0;)
    if (i != shown.model) order.push_back(i);
  for (const size_t i : order) {
    const bool is_model = i == shown.model;
    try {
      const ModelSet models(*context, {shown.paths[i]}, options.decoding.precision);
      SentenceView view =
          view_sentence(*context, job.communicator, models, options.decoding.search, sentence);
      const bool fits = is_model || view.map_bytes <= room;
      if (!fits) view.json["translated"] = view.json["given"] = nullptr;
      leaves_out = leaves_out || !fits;
      room -= fits ? std::min(room, view.map_bytes) : 0;
      views[i].update(view.json);
      views[i]["file"] = models.path();
      if (is_model) of_model = std::move(view);
    } catch (const std::runtime_error& error) {  // of a damaged checkpoint beside others
      if (is_model) throw;
      views[i]["problem"] = error.what();
      say(job, fmt::format("warning: {}", error.what()));
    }
    if (shown.paths.size() > 1) views[i]["step"] = step_of_checkpoint(shown.paths[i]);
  }
  if (leaves_out) {
    say(job, fmt::format("warning: the page has no room for the maps of all checkpoints, at most {} MiB; a "
                         "smaller --checkpoints leaves more room",
                         kMaxMapBytes >> 20));
  }
  const OrderedJson data = {{"source", sentence.source}, {"reference", sentence.reference},
                            {"checkpoints", views},      {"model", shown.model},
                            {"is_best", shown.is_best},  {"in_folder", shown.in_folder}};
  data::write_file_atomically(options.output, page_with(kAttentionPage, data));
  write_output(fmt::format("{}: {}, {} heat maps of the translation, {} of a search\n", options.output,
                           counted(std::ssize(shown.paths), "model"), of_model.maps,
                           counted(static_cast<int64_t>(of_model.steps), "step")));
  return 0;
}

}  // namespace

Command attention_command() {
  const auto options = std::make_shared<AttentionCommandOptions>();
  Command command;
  command.name = "attention";
  command.summary = "draws the attention of a model and its beam search for a sentence";
  command.synopsis = "--model FILE|DIR --source TEXT [--target TEXT] --output FILE.html [options]";
  command.description = {
      "Writes a page for a web browser with a heat map of the attention weights of every layer and head: "
      "the encoder's self-attention, the decoder's, and the decoder's attention to the source, while the model "
      "writes its translation or, with --target, the reference. Below, the page has the beam search: the "
      "hypotheses of each step with their scores, what fell out, where the decoder looked, and where a "
      "reference left the beam. The page is one file and needs neither the network nor other files.",
      "Rows and columns are tokens of the model's vocabulary; a token that begins with \u2581 begins a word. "
      "A row of the decoder is the token that it is about to write.",
      "With --checkpoints one can step through checkpoints of a run folder, also while it trains; a checkpoint "
      "that cannot be read is a warning."};
  command.examples = {
      {"attention --model model --source \"A man rides a bicycle.\" --output attention.html",
       "With the model's own translation:"},
      {"attention --model model --checkpoints 6 --source \"A man rides a bicycle.\" --target \"Ein Mann "
       "f\u00e4hrt Fahrrad.\" --output attention.html",
       "How a run came to a translation, and why the search did not find another:"}};
  command.common = {{"model", "weights, checkpoint or run folder"},
                    {"source", "the sentence"},
                    {"target", "a translation to compare with"},
                    {"checkpoints", "how many of a run folder"},
                    {"output", "the page for a browser"}};
  command.exit_codes = {{69, "the device is not available"}};
  OptionTable& table = command.options;
  table.group("Model, text and output");
  table
      .text("model", "FILE|DIR", options->model,
            "A weights file, a checkpoint, or a run folder (its best checkpoint, or the newest if none was "
            "validated). One model: each has its own attention.")
      .required = true;
  table.integer("checkpoints", options->checkpoints, {.min = 1, .max = kMaxShownCheckpoints},
                "Checkpoints of the run folder that are shown, spread evenly; among them the best, or the "
                "newest if none was validated. With 1 only this one.");
  table.text("source", "TEXT", options->sentence.source, "The sentence to translate.").required = true;
  table.text(
      "target", "TEXT", options->sentence.reference,
      "A translation of it: the page also has the attention while the model writes this one, and follows "
      "it through the search.");
  table.text("output", "FILE", options->output, "The page (HTML).").required = true;
  add_search_options(options->decoding, table);
  command.run = [options](Job& job) { return run_attention(*options, job); };
  return command;
}

}  // namespace ventris
