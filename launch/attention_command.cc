// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "backend/error.h"
#include "launch/attention_page.h"
#include "launch/command.h"
#include "launch/decoding_options.h"
#include "launch/job.h"
#include "launch/output.h"
#include "launch/search_page.h"
#include "model/search/target_scores.h"
#include "trainer/files/marks.h"
#include "trainer/files/model_files.h"
#include "trainer/inference/translation.h"
#include "trainer/text.h"

namespace ventris {

namespace {

struct AttentionCommandOptions {
  std::string model;
  DecodingOptions decoding;
  std::string source;
  std::string target;
  std::string output;
  bool search = false;
};

struct SearchInputs {
  Context& context;
  const Job& job;
  const ModelSet& models;
  const AttentionCommandOptions& options;
};

/// `reference` may be empty.
int show_search(const SearchInputs& of, const std::string& source, const std::vector<int32_t>& source_tokens,
                const std::string& reference) {
  const data::TokenizerPair& tokenizers = of.models.tokenizers();
  const data::Tokenizer& target = tokenizers.target();
  Translator translator(of.context, of.job.communicator, of.models, of.options.decoding.search);
  SearchRecorder recorder(translator.options());
  translator.watch([&](size_t, const SearchStep& step) { recorder.add(step); });
  const Translation best = translator.translate({source}).front().translations.front();
  const SearchModel model = of.models.search_models().front();
  AttentionMapper mapper(of.context, model.config, model.store, model.ids, marks_of(tokenizers));
  const std::vector<int32_t> wanted =
      attention_tokens(target, of.models.longest_sentence(), reference, "--target", /*required=*/false);
  SearchPage page = {.model = of.models.path(),
                     .source = source,
                     .translation = best.text,
                     .score = best.score,
                     .reference = reference,
                     .beam_size = translator.options().beam_size,
                     .length_penalty = translator.options().length_penalty,
                     .record = recorder.take(source_tokens, best.tokens, wanted.empty() ? nullptr : &wanted,
                                             mapper, model.config.decoder_layers)};
  if (!wanted.empty()) {
    TargetScores scores(of.context, of.models.search_models(), {.marks = marks_of(tokenizers)});
    const SentencePair pair = {source_tokens, wanted};
    double sum = 0.0;
    const std::vector<float> of_tokens = scores.score({&pair, 1}).front();
    for (const float log_probability : of_tokens) {
      page.reference_tokens.push_back(static_cast<double>(log_probability));
      sum += page.reference_tokens.back();
    }
    page.reference_score = search_score(translator.options(), sum, static_cast<int>(std::ssize(wanted)));
    for (const int32_t token : wanted) page.reference_pieces.push_back(target.piece(token));
    page.reference_pieces.push_back(target.piece(target.end_id()));
  }
  for (const int32_t token : source_tokens) page.source_tokens.push_back(tokenizers.source().piece(token));
  page.source_tokens.push_back(tokenizers.source().piece(tokenizers.source().end_id()));
  for (const std::vector<SearchNode>& nodes : page.record.steps) {
    std::vector<std::string>& pieces = page.pieces.emplace_back();
    for (const SearchNode& node : nodes) pieces.push_back(target.piece(node.token));
  }
  write_file_atomically(of.options.output, search_page(page));
  write_output(
      fmt::format("{}: {} of a search\n", of.options.output, counted(std::ssize(page.record.steps), "step")));
  return 0;
}

/// Whether an option of the groups Search and Sampling has another value than its default.
bool configures_search(BeamSearchOptions search) {
  const BeamSearchOptions defaults;
  search.batch_rows = defaults.batch_rows;  // of the group Machine, as the next
  search.batch_sentences = defaults.batch_sentences;
  return search != defaults;
}

int run_attention(AttentionCommandOptions& options, Job& job) {
  const std::string source = one_line(options.source, "--source");
  const std::string target = one_line(options.target, "--target");
  check_can_create(options.output);
  options.decoding.models = {options.model};
  const DecodingOptions& decoding = options.decoding;
  if (options.search && decoding.search.sample)
    fail(ExitCode::kUsage, "--search shows a beam search; --sample draws without one. Give one of them");
  if (!options.search && !target.empty() && configures_search(decoding.search)) {
    fail(ExitCode::kUsage,
         "--target is the translation, so none is searched or drawn: --beam-size, --sample, --seed and the "
         "other options of the groups Search and Sampling need --search, or no --target");
  }
  const std::unique_ptr<Context> context = make_decoding_context(job, decoding);
  const ModelSet models(*context, decoding.models, decoding.precision);
  if (options.search) {
    return show_search({.context = *context, .job = job, .models = models, .options = options}, source,
                       attention_tokens(models.tokenizers().source(), models.longest_sentence(), source,
                                        "--source", /*required=*/true),
                       target);
  }
  SentenceMapper mapper(*context, job.communicator, models, decoding.search);
  const SentenceMapper::Sentence sentence = {source, "--source"};
  const SentenceAttention attention =
      target.empty() ? mapper.translated(sentence) : mapper.given(sentence, {target, "--target"});
  write_file_atomically(options.output, attention_page(models.path(), attention));
  size_t maps = 0;
  for (const auto& of_kind : attention.maps) maps += of_kind.size();
  write_output(fmt::format("{}: {} heat maps of {} and {} tokens\n", options.output, maps,
                           attention.source_tokens.size() - 1, attention.target_tokens.size() - 2));
  return 0;
}

}  // namespace

Command attention_command() {
  const auto options = std::make_shared<AttentionCommandOptions>();
  Command command;
  command.name = "attention";
  command.summary = "draws the attention of every layer and head for a sentence";
  command.synopsis = "--model FILE|DIR --source TEXT [--target TEXT] --output FILE.html [options]";
  command.description = {
      "Writes a page for a web browser with a heat map of the attention weights of every layer and head: "
      "the encoder's self-attention, the decoder's, and the decoder's attention to the source. "
      "The page is one file and needs neither the network nor other files.",
      "The target is given to the decoder, without dropout. Rows and columns are tokens "
      "of the model's vocabulary; a token that begins with \u2581 begins a word. "
      "A row of the decoder is the token that it is about to write."};
  command.examples = {
      {"attention --model model --source \"A man rides a bicycle.\" --output attention.html",
       "With the model's own translation:"},
      {"attention --model weights.h5 --source \"A man rides a bicycle.\" --target \"Ein Mann f\u00e4hrt "
       "Fahrrad.\" --output attention.html",
       "With a given translation:"},
      {"attention --search --model model --source \"A man rides a bicycle.\" --target \"Ein Mann f\u00e4hrt "
       "Fahrrad.\" --output search.html",
       "Why the search did not find a translation:"}};
  command.common = {{"model", "weights, checkpoint or run folder"},
                    {"source", "the sentence"},
                    {"target", "its translation, if not searched"},
                    {"output", "the page for a browser"}};
  command.exit_codes = {{69, "the device is not available"}};
  OptionTable& table = command.options;
  table.group("Model, text and output");
  table
      .text("model", "FILE|DIR", options->model,
            "A weights file, a checkpoint, or a run folder (its best checkpoint, or the newest if none was "
            "validated). One model: each has its own attention.")
      .required = true;
  table.text("source", "TEXT", options->source, "The sentence to translate.").required = true;
  table.text(
      "target", "TEXT", options->target,
      "Its translation. Default: the model translates, with the options of the groups Search and Sampling, "
      "which need --search beside --target.");
  table.text("output", "FILE", options->output, "The page (HTML).").required = true;
  table.toggle(
      "search", options->search,
      "Instead of the maps, shows the beam search: the hypotheses of each step with their scores, "
      "what fell out, and where the decoder looked. With --target, the reference, also where that left "
      "the beam.");
  add_search_options(options->decoding, table);
  command.run = [options](Job& job) { return run_attention(*options, job); };
  return command;
}

}  // namespace ventris
