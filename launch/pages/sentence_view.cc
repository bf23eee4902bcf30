// SPDX-License-Identifier: Apache-2.0
#include "launch/pages/sentence_view.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/device/error.h"
#include "data/io/json_value.h"
#include "launch/output.h"
#include "model/attention_maps.h"
#include "model/search/beam_search.h"
#include "model/search/target_scores.h"
#include "trainer/checkpoint/marks.h"

namespace ventris {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Tokens = std::vector<int32_t>;
using Pieces = std::vector<std::string>;

constexpr size_t kDigitsOfWeight = 2;  // of base 64

/// 0 to 4095 stand for 0 to 1.
std::string packed(const std::vector<float>& weights) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve(kDigitsOfWeight * weights.size());
  for (const float weight : weights) {
    const auto level = static_cast<unsigned>(std::lround(4095.0F * std::clamp(weight, 0.0F, 1.0F)));
    text += kDigits[level >> 6];
    text += kDigits[level & 63U];
  }
  return text;
}

Pieces pieces_with_end(const data::Tokenizer& tokenizer, const Tokens& tokens) {
  Pieces pieces;
  for (const int32_t token : tokens) pieces.push_back(tokenizer.piece(token));
  pieces.push_back(tokenizer.piece(tokenizer.end_id()));
  return pieces;
}

Tokens checked_tokens(const data::Tokenizer& tokenizer, size_t longest, const std::string& text,
                      const char* option) {
  Tokens tokens = tokenizer.encode(text);
  const size_t max = std::min(kMaxAttentionTokens, longest);
  if (tokens.size() > max) {
    fail(ExitCode::kBadData, "{} has {} tokens of the vocabulary; a page of this model holds at most {}",
         option, tokens.size(), max);
  }
  return tokens;
}

/// A continuation that a search considered.
struct SearchNode {
  int parent = -1;             // its number in the step before; -1 in the first step
  int32_t token = 0;           // the end mark if it ends
  double log_probability = 0;  // of the whole
  double score = 0;            // with the length penalty, as if it ended here
  bool kept = false;
  bool ended = false;      // kept, and a finished hypothesis
  bool winner = false;     // on the way to the translation
  bool reference = false;  // a begin of the reference
  int attention = -1;      // if kept: its row in SearchRecorder::attention, where the decoder looked for it
};

/// What a beam search does with one sentence, step by step.
class SearchRecorder {
 public:
  explicit SearchRecorder(const BeamSearchOptions& options) : options_(options) {}
  void add(const SearchStep& step);
  /// Marks the paths of the translation and of a reference (empty if there is none), as tokens without marks.
  void mark_paths(Tokens translation, Tokens reference);
  /// Computes the attention of what was kept once more: the mean over the heads of each layer.
  void add_attention(const Tokens& source, AttentionMapper& mapper, int layers);

  std::vector<std::vector<SearchNode>> steps;              // of each all that were considered, best first
  std::vector<std::vector<std::vector<float>>> attention;  // [layer][row][source tokens and end mark]

 private:
  /// The tokens of a node, with the end mark of one that ends.
  Tokens path(size_t step, int node) const;

  const BeamSearchOptions& options_;
  std::vector<int> live_;  // numbers in the last step of the hypotheses that go on
};

void SearchRecorder::add(const SearchStep& step) {
  const bool first = steps.empty();
  std::vector<SearchNode>& nodes = steps.emplace_back();
  std::vector<int> live;
  for (size_t i = 0; i < step.considered.size(); ++i) {
    const SearchStep::Candidate& candidate = step.considered[i];
    SearchNode& node = nodes.emplace_back();
    node.parent = first ? -1 : live_[static_cast<size_t>(candidate.hypothesis)];
    node.token = candidate.token;
    node.log_probability = candidate.log_probability;
    // The tokens before the end mark, or as many as if it followed.
    const auto tokens = static_cast<int>(steps.size()) - (candidate.token == options_.end_id ? 1 : 0);
    node.score = search_score(options_, candidate.log_probability, tokens);
    node.kept = i < step.kept;
    node.ended = node.kept && candidate.token == options_.end_id;
    if (node.kept && !node.ended) live.push_back(static_cast<int>(i));
  }
  live_ = std::move(live);
}

Tokens SearchRecorder::path(size_t step, int node) const {
  Tokens tokens;
  for (; node >= 0; --step) {
    tokens.push_back(steps[step][static_cast<size_t>(node)].token);
    node = steps[step][static_cast<size_t>(node)].parent;
  }
  std::reverse(tokens.begin(), tokens.end());
  return tokens;
}

void SearchRecorder::mark_paths(Tokens translation, Tokens reference) {
  if (!reference.empty()) reference.push_back(options_.end_id);
  translation.push_back(options_.end_id);
  for (size_t step = 0; step < steps.size(); ++step) {
    for (SearchNode& node : steps[step]) {
      const auto is_on = [&](const Tokens& way, bool SearchNode::*mark) {
        return step < way.size() && node.token == way[step] &&
               (step == 0 || steps[step - 1][static_cast<size_t>(node.parent)].*mark);
      };
      node.winner = node.kept && is_on(translation, &SearchNode::winner);
      node.reference = is_on(reference, &SearchNode::reference);
    }
  }
}

void SearchRecorder::add_attention(const Tokens& source, AttentionMapper& mapper, int layers) {
  attention.resize(static_cast<size_t>(layers));
  // From the last step back, so that one pass of the decoder serves a hypothesis and all that it continues.
  std::vector<Tokens> targets;
  int rows = 0;
  std::vector<std::pair<size_t, int64_t>> places;  // of each row: the target, and the position there
  for (size_t step = steps.size(); step-- > 0;) {
    for (size_t i = 0; i < steps[step].size(); ++i) {
      if (!steps[step][i].kept || steps[step][i].attention >= 0) continue;
      Tokens tokens = path(step, static_cast<int>(i));
      if (steps[step][i].ended) tokens.pop_back();
      targets.push_back(std::move(tokens));
      int node = static_cast<int>(i);
      for (size_t at = step; node >= 0; --at) {
        SearchNode& here = steps[at][static_cast<size_t>(node)];
        if (here.attention >= 0) break;  // so have all before it
        here.attention = rows++;
        places.emplace_back(targets.size() - 1, static_cast<int64_t>(at));
        node = here.parent;
      }
    }
  }
  std::vector<TokenPair> pairs;
  for (const Tokens& target : targets) pairs.push_back({source, target});
  for (int layer = 0; layer < layers; ++layer) {
    const std::vector<AttentionMap> maps = mapper.cross_attention(pairs, layer);
    for (const auto& [target, position] : places) {
      const AttentionMap& map = maps[target];
      const auto begin = map.weights.begin() + static_cast<std::ptrdiff_t>(position * map.keys);
      attention[static_cast<size_t>(layer)].emplace_back(begin,
                                                         begin + static_cast<std::ptrdiff_t>(map.keys));
    }
  }
}

/// One model and sentence.
class Viewer {
 public:
  Viewer(Context& context, const ModelSet& models, const SentenceTexts& sentence)
      : context_(context),
        models_(models),
        tokenizers_(models.tokenizers()),
        model_(models.search_models().front()),
        mapper_(context, model_.config, model_.store, model_.ids, marks_of(tokenizers_)),
        source_(checked_tokens(tokenizers_.source(), models.longest_sentence(), sentence.source, "--source")),
        reference_(
            checked_tokens(tokenizers_.target(), models.longest_sentence(), sentence.reference, "--target")) {
    if (source_.empty()) fail(ExitCode::kBadData, "--source has no tokens");
  }

  SentenceView view(Communicator& communicator, const BeamSearchOptions& search,
                    const SentenceTexts& sentence) {
    Translator translator(context_, communicator, models_, search);
    SearchRecorder recorder(translator.options());
    if (!search.sample) translator.watch([&](size_t, const SearchStep& step) { recorder.add(step); });
    const Translation best = translator.translate({sentence.source}).front().translations.front();
    view_.json = {{"translation", best.text}, {"score", best.score}, {"translated", maps(best.tokens)}};
    view_.maps = map_count_;
    view_.json["given"] = reference_.empty() ? OrderedJson(nullptr) : maps(reference_);
    if (!search.sample) {
      recorder.mark_paths(best.tokens, reference_);
      recorder.add_attention(source_, mapper_, model_.config.decoder_layers);
      view_.steps = recorder.steps.size();
      view_.json["search"] = search_json(recorder, translator.options());
    }
    return std::move(view_);
  }

 private:
  /// The maps of all layers and heads, for launch/pages/maps.js: of the cross-attention, the encoder and the
  /// decoder the tokens of rows and columns, and the weights as text.
  OrderedJson maps(const Tokens& target) {
    const Pieces keys = pieces_with_end(tokenizers_.source(), source_);
    const Pieces queries = pieces_with_end(tokenizers_.target(), target);
    Pieces inputs = {tokenizers_.target().piece(tokenizers_.target().begin_id())};
    inputs.insert(inputs.end(), queries.begin(), queries.end() - 1);
    const AttentionMapper::AllMaps all = mapper_.all_maps({source_, target});
    map_count_ = 0;
    const auto group = [&](AttentionKind kind, const char* title, const char* note, const Pieces& rows,
                           const Pieces& columns) {
      const std::vector<AttentionMap>& of_kind = all[static_cast<size_t>(kind)];
      OrderedJson weights = OrderedJson::array();
      for (const AttentionMap& map : of_kind) {
        weights.push_back(packed(map.weights));
        view_.map_bytes += kDigitsOfWeight * map.weights.size();
      }
      map_count_ += of_kind.size();
      return OrderedJson{{"title", title},
                         {"note", note},
                         {"queries", rows},
                         {"keys", columns},
                         {"layers", of_kind.size() / static_cast<size_t>(model_.config.heads)},
                         {"heads", model_.config.heads},
                         {"weights", weights}};
    };
    return {group(AttentionKind::kCross, "Cross-attention",
                  "The decoder, about to write the token of the row, attends to the source.", queries, keys),
            group(AttentionKind::kEncoderSelf, "Encoder self-attention",
                  "Each token of the source attends to all tokens of the source.", keys, keys),
            group(AttentionKind::kDecoderSelf, "Decoder self-attention",
                  "The decoder, about to write the token of the row, attends to the tokens written so far.",
                  queries, inputs)};
  }

  OrderedJson node_json(const SearchNode& node, size_t rank) const {
    OrderedJson object = {{"piece", tokenizers_.target().piece(node.token)},
                          {"parent", node.parent},
                          {"log_probability", node.log_probability},
                          {"score", node.score},
                          {"rank", rank}};
    if (node.kept) object["kept"] = true;
    if (node.ended) object["ended"] = true;
    if (node.winner) object["winner"] = true;
    if (node.reference) object["reference"] = true;
    if (node.attention >= 0) object["attention"] = node.attention;
    return object;
  }

  OrderedJson search_json(const SearchRecorder& record, const BeamSearchOptions& options) {
    OrderedJson steps = OrderedJson::array(), considered = steps;
    for (const std::vector<SearchNode>& all : record.steps) {
      OrderedJson nodes = OrderedJson::array();
      size_t shown_fallen = 0;
      for (size_t i = 0; i < all.size(); ++i) {
        if (!all[i].kept && shown_fallen++ >= kShownFallen && !all[i].reference) continue;
        nodes.push_back(node_json(all[i], i + 1));
      }
      steps.push_back(std::move(nodes));
      considered.push_back(all.size());
    }
    OrderedJson attention = OrderedJson::array();
    for (const auto& layer : record.attention) {
      OrderedJson rows = OrderedJson::array();
      for (const std::vector<float>& row : layer) rows.push_back(packed(row));
      attention.push_back(std::move(rows));
    }
    return {{"beam_size", options.beam_size},
            {"length_penalty", data::to_json_value<OrderedJson>(options.length_penalty)},
            {"source_tokens", pieces_with_end(tokenizers_.source(), source_)},
            {"steps", steps},
            {"considered", considered},
            {"attention", attention},
            {"reference", reference_.empty() ? OrderedJson(nullptr) : reference_json(options)}};
  }

  /// The scores that the model gives to the reference.
  OrderedJson reference_json(const BeamSearchOptions& options) {
    TargetScores scores(context_, models_.search_models(), {.marks = marks_of(tokenizers_)});
    const SentencePair pair = {source_, reference_};
    OrderedJson log_probabilities = OrderedJson::array();
    double sum = 0.0;
    const std::vector<float> of_tokens = scores.score({&pair, 1}).front();
    for (const float log_probability : of_tokens) {
      log_probabilities.push_back(static_cast<double>(log_probability));
      sum += static_cast<double>(log_probability);
    }
    return {{"pieces", pieces_with_end(tokenizers_.target(), reference_)},
            {"log_probabilities", log_probabilities},
            {"score", search_score(options, sum, static_cast<int>(std::ssize(reference_)))}};
  }

  Context& context_;
  const ModelSet& models_;
  const data::TokenizerPair& tokenizers_;
  const SearchModel model_;
  AttentionMapper mapper_;
  const Tokens source_;
  const Tokens reference_;
  SentenceView view_ = {};
  size_t map_count_ = 0;
};

}  // namespace

std::string one_line(std::string text, const std::string& option) {
  if (text.find_first_of("\r\n") != std::string::npos) {
    fail(ExitCode::kUsage, "{} has more than one line; expected one sentence", option);
  }
  check_line(text, option, 1);
  return text;
}

SentenceView view_sentence(Context& context, Communicator& communicator, const ModelSet& models,
                           const BeamSearchOptions& search, const SentenceTexts& sentence) {
  return Viewer(context, models, sentence).view(communicator, search, sentence);
}

}  // namespace ventris
