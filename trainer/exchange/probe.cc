// SPDX-License-Identifier: Apache-2.0
#include "trainer/exchange/probe.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "backend/device/error.h"
#include "backend/device/transfer.h"
#include "data/io/json_text.h"
#include "data/io/json_value.h"
#include "model/batch_stage.h"
#include "model/packed_pairs.h"
#include "model/transformer.h"
#include "trainer/checkpoint/marks.h"
#include "trainer/json_text.h"

namespace ventris {
namespace {

using nlohmann::json;

/// Tokens of the sources; the targets have at most kMoreTokens more.
constexpr int kSourceTokens[] = {3, 8, 15};
constexpr int kMoreTokens = 5;

/// Computes logits of sentence pairs, one forward pass over all of them.
class Forward {
 public:
  Forward(Context& context, LoadedModel& model, const std::vector<Probe>& probes)
      : context_(context),
        model_(model),
        capacity_(capacity_of(probes)),
        transformer_(context, model.config, model.store, model.ids, capacity_, KeptActivations::kNone),
        stage_(context, capacity_, StagedRows::kExact),
        memory_(
            context.device(),
            static_cast<size_t>(capacity_.target_rows * model.config.padded_vocab()) * sizeof(float) + 1024,
            "logits of probes"),
        logits_(memory_.allocate(capacity_.target_rows, model.config.padded_vocab(), DType::kF32)) {}

  /// [target tokens + 1 of every probe, padded_vocab].
  ConstTensor logits(const std::vector<Probe>& probes) {
    PackedPairs packed(marks_of(*model_.tokenizers));
    for (const Probe& probe : probes) packed.add(probe.source, probe.target);
    stage_.wait_until_sent();
    stage_.fill(packed.view());
    stage_.send();
    const Tensor logits = logits_.row_range(0, packed.target_rows());
    transformer_.logits(stage_.batch(), logits);
    synchronize(context_);
    return logits;
  }

 private:
  static MicroBatchCapacity capacity_of(const std::vector<Probe>& probes) {
    MicroBatchCapacity capacity{.sentences = static_cast<int>(probes.size())};
    for (const Probe& probe : probes) {
      capacity.source_rows += std::ssize(probe.source) + 1;
      capacity.target_rows += std::ssize(probe.target) + 1;
    }
    return capacity;
  }

  Context& context_;
  LoadedModel& model_;
  const MicroBatchCapacity capacity_;
  Transformer transformer_;
  BatchStage stage_;
  Arena memory_;
  Tensor logits_;
};

std::vector<int32_t> pseudo_random_tokens(int count, const data::Tokenizer& tokenizer, uint64_t& state) {
  std::vector<int32_t> tokens;
  while (static_cast<int>(tokens.size()) < count) {
    // Knuth's MMIX generator: the same tokens for every build and machine.
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto token = static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(tokenizer.vocab_size()));
    const bool mark =
        token == tokenizer.begin_id() || token == tokenizer.end_id() || token == tokenizer.unknown_id();
    if (!mark) tokens.push_back(token);
  }
  return tokens;
}

/// log p(token) of a row of logits, in f64.
double log_probability(const float* logits, int64_t vocab, int32_t token) {
  const double max = static_cast<double>(*std::max_element(logits, logits + vocab));
  double sum = 0.0;
  for (int64_t i = 0; i < vocab; ++i) sum += std::exp(static_cast<double>(logits[i]) - max);
  return static_cast<double>(logits[token]) - max - std::log(sum);
}

/// Calls each(probe, row of the probe, logits) for all rows.
template <typename Probes, typename Each>
void for_each_logits_row(Probes& probes, ConstTensor logits, Each&& each) {
  int64_t row = 0;
  for (auto& probe : probes) {
    for (size_t i = 0; i <= probe.target.size(); ++i) each(probe, i, logits.row<float>(row++));
  }
}

/// Fills the targets, token by token, until the end mark or `max` tokens.
void translate_greedily(Context& context, LoadedModel& model, std::vector<Probe>& probes) {
  std::vector<Probe> longest = probes;
  const auto max = static_cast<size_t>(model.config.max_positions - 1);
  for (Probe& probe : longest) probe.target.resize(std::min(probe.source.size() + kMoreTokens, max));
  Forward forward(context, model, longest);
  std::vector<bool> done(probes.size());
  const int64_t vocab = model.config.vocab_size;
  while (!std::all_of(done.begin(), done.end(), [](bool d) { return d; })) {
    const ConstTensor logits = forward.logits(probes);
    std::vector<int32_t> next;
    for_each_logits_row(probes, logits, [&](const Probe& probe, size_t i, const float* row) {
      if (i == probe.target.size()) {
        next.push_back(static_cast<int32_t>(std::max_element(row, row + vocab) - row));
      }
    });
    for (size_t p = 0; p < probes.size(); ++p) {
      done[p] = done[p] || next[p] == model.tokenizers->target().end_id() ||
                probes[p].target.size() == longest[p].target.size();
      if (!done[p]) probes[p].target.push_back(next[p]);
    }
  }
}

// The shortest decimals that read back as the same f32.
json numbers(const std::vector<float>& values) {
  json list = json::array();
  for (const float value : values) list.push_back(std::stod(fmt::format("{}", value)));
  return list;
}

}  // namespace

std::vector<Probe> make_probes(Context& context, LoadedModel& model) {
  std::vector<Probe> probes;
  uint64_t state = 1;
  for (const int tokens : kSourceTokens) {
    Probe probe;
    probe.source = pseudo_random_tokens(std::min(tokens, model.config.max_positions - 1),
                                        model.tokenizers->source(), state);
    probes.push_back(probe);
  }
  translate_greedily(context, model, probes);
  Forward forward(context, model, probes);
  const int64_t vocab = model.config.vocab_size;
  for_each_logits_row(probes, forward.logits(probes), [&](Probe& probe, size_t i, const float* row) {
    const int32_t label = i < probe.target.size() ? probe.target[i] : model.tokenizers->target().end_id();
    probe.log_probabilities.push_back(static_cast<float>(log_probability(row, vocab, label)));
    std::vector<int32_t> order(static_cast<size_t>(vocab));
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + Probe::kTopTokens, order.end(),
                      [&](int32_t a, int32_t b) { return row[a] > row[b] || (row[a] == row[b] && a < b); });
    for (int k = 0; k < Probe::kTopTokens; ++k) {
      const int32_t token = order[static_cast<size_t>(k)];
      probe.top_tokens.push_back(token);
      probe.top_logits.push_back(row[token]);
    }
  });
  return probes;
}

std::string to_json(const std::vector<Probe>& probes) {
  json list = json::array();
  for (const Probe& probe : probes) {
    list.push_back({{"source", probe.source},
                    {"target", probe.target},
                    {"log_probabilities", numbers(probe.log_probabilities)},
                    {"top_words", probe.top_tokens},
                    {"top_logits", numbers(probe.top_logits)}});
  }
  return data::utf8_json_text(json{{"probes", list}});
}

std::vector<Probe> probes_from_json(const std::string& text, const std::string& origin) {
  const json object = parse_json(text);
  const auto refuse = [&] { fail(ExitCode::kBadData, "{}: its probes are damaged", origin); };
  if (!object.is_object() || !object.contains("probes") || !object["probes"].is_array()) refuse();
  std::vector<Probe> probes;
  for (const json& entry : object["probes"]) {
    Probe& probe = probes.emplace_back();
    const auto take = [&](const char* key, auto& values) {
      return entry.is_object() && entry.contains(key) && data::read_json_value(entry[key], values);
    };
    const bool read = take("source", probe.source) && take("target", probe.target) &&
                      take("log_probabilities", probe.log_probabilities) &&
                      take("top_words", probe.top_tokens) && take("top_logits", probe.top_logits);
    const size_t rows = probe.target.size() + 1;
    if (!read || probe.log_probabilities.size() != rows ||
        probe.top_tokens.size() != rows * Probe::kTopTokens ||
        probe.top_logits.size() != rows * Probe::kTopTokens)
      refuse();
  }
  return probes;
}

double check_probes(Context& context, LoadedModel& model, const std::vector<Probe>& probes,
                    double tolerance) {
  const int64_t vocab = model.config.vocab_size;
  const auto check_tokens = [&](const std::vector<int32_t>& tokens, int64_t size) {
    if (std::all_of(tokens.begin(), tokens.end(), [&](int32_t w) { return w >= 0 && w < size; })) return;
    fail(ExitCode::kBadData, "{}: a probe has tokens beyond the vocabulary", model.path);
  };
  for (const Probe& probe : probes) {
    check_tokens(probe.source, model.config.source_vocab());
    check_tokens(probe.target, vocab);
    check_tokens(probe.top_tokens, vocab);
    if (std::max(std::ssize(probe.source), std::ssize(probe.target)) >= model.config.max_positions) {
      fail(ExitCode::kBadData, "{}: a probe is longer than the model's {} positions", model.path,
           model.config.max_positions);
    }
  }
  if (probes.empty()) return 0.0;
  Forward forward(context, model, probes);
  double greatest = 0.0;
  const auto compare = [&](const Probe& probe, size_t i, const char* what, float expected, double computed) {
    const double difference = std::abs(static_cast<double>(expected) - computed);
    greatest = std::max(greatest, difference);
    const double rounding = std::max(1.0, std::abs(static_cast<double>(expected)));  // f32 has 24 bits
    if (!(difference <= tolerance * rounding)) {
      fail(ExitCode::kBadData,
           "{}: probe {}, token {}: {} is {}, but {} was expected: "
           "the weights or the program changed since the file was written",
           model.path, &probe - probes.data(), i, what, computed, expected);
    }
  };
  for_each_logits_row(probes, forward.logits(probes), [&](const Probe& probe, size_t i, const float* row) {
    const int32_t label = i < probe.target.size() ? probe.target[i] : model.tokenizers->target().end_id();
    compare(probe, i, "its log-probability", probe.log_probabilities[i], log_probability(row, vocab, label));
    const size_t first = i * Probe::kTopTokens;
    compare(probe, i, "the greatest logit", probe.top_logits[first],
            static_cast<double>(*std::max_element(row, row + vocab)));
    for (size_t k = first; k < first + Probe::kTopTokens; ++k) {
      compare(probe, i, "the logit of a top token", probe.top_logits[k],
              static_cast<double>(row[probe.top_tokens[k]]));
    }
  });
  return greatest;
}

}  // namespace ventris
