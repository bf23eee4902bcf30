// SPDX-License-Identifier: Apache-2.0
#include "launch/foreign/marian_conversion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "launch/foreign/marian_settings.h"
#include "trainer/text.h"

namespace ventris {
namespace {

using Settings = MarianSettings;

std::string yes_no(bool value) {
  return value ? "yes" : "no";
}

/// Layers, LayerNorm and what Marian's network has in any case (launch/recipes/marian.ini).
void convert_network(Settings& s) {
  if (s.text("type") != "transformer") s.refuse("type", "transformer; there is no other model");
  s.set("encoder-layers", s.integer("enc-depth"));
  s.set("decoder-layers", s.integer("dec-depth"));
  s.set("d-model", s.integer("dim-emb"));
  s.set("d-ff", s.integer("transformer-dim-ffn"));
  s.set("heads", s.integer("transformer-heads"));
  s.set("positions", "marian");
  s.set("begin-embedding", "none");
  s.set("layer-norm-epsilon", "1e-6");
  const std::string activation = s.text("transformer-ffn-activation");
  if (activation != "relu" && activation != "swish") s.refuse("transformer-ffn-activation", "swish or relu");
  s.set("activation", activation);
  s.set("output-bias", yes_no(!s.flag("output-omit-bias")));
  const std::string norm = s.text("transformer-preprocess") + "/" + s.text("transformer-postprocess") + "/" +
                           s.text("transformer-postprocess-top");
  s.set("pre-norm", yes_no(norm == "n/da/n"));
  if (norm != "n/da/n" && norm != "/dan/")
    s.missing("transformer-postprocess",
              "post-norm is preprocess '', postprocess dan, postprocess-top ''; pre-norm n, da and n; no "
              "other order of LayerNorm, dropout and sum is computed");
  const bool all = s.flag("tied-embeddings-all");
  const bool output = all || s.flag("tied-embeddings");
  const bool source = all || s.flag("tied-embeddings-src");
  s.set("tie", source && output ? "all" : output ? "decoder" : "none");
  if (source && !output)
    s.missing("tied-embeddings-src", "one embedding for both sides is that of the output layer too (--tie)",
              "tie");
  s.set("max-positions", std::max(s.integer("max-length"), s.integer("valid-max-length")));
}

void convert_regularisation(Settings& s) {
  s.set("dropout", s.number("transformer-dropout"));
  s.set("attention-dropout", s.number("transformer-dropout-attention"));
  const std::pair<const char*, const char*> others[] = {{"activation-dropout", "transformer-dropout-ffn"},
                                                        {"dropout-source", "dropout-src"},
                                                        {"dropout-target", "dropout-trg"}};
  for (const auto& [ours, theirs] : others)
    if (s.number(theirs) > 0.0) s.set(ours, s.number(theirs));
  s.set("label-smoothing", s.number("label-smoothing"));
  if (s.text("transformer-postprocess-emb") != "d" && s.number("transformer-dropout") > 0.0)
    s.missing("transformer-postprocess-emb", "--dropout is for sums of embeddings and positions too");
  const std::vector<double> alphas = s.numbers("sentencepiece-alphas");
  if (alphas.empty() || *std::max_element(alphas.begin(), alphas.end()) <= 0.0) return;
  s.set("sample-source", alphas.front());
  s.set("sample-target", alphas.size() > 1 ? alphas[1] : 0.0);
  s.differs("sentencepiece-alphas", "needs a corpus of 'ventris prepare --keep-text'");
}

/// The formulas of both are compared in tests/cli/schedule_test.py, and with what Marian logs in
/// tests/cli/convert_config_test.py.
void convert_schedule(Settings& s) {
  const MarianPeriod warmup = s.period("lr-warmup");
  if (warmup.unit != 'u') s.missing("lr-warmup", "--warmup-steps counts updates", "warmup-steps");
  const int64_t warmup_steps =
      warmup.unit == 'u' ? std::max<int64_t>(1, static_cast<int64_t>(warmup.value)) : 1;
  const std::vector<MarianPeriod> decay = s.periods("lr-decay-inv-sqrt");
  const bool decays = !decay.empty() && decay.front().value > 0.0;
  const double factor = s.number("lr-decay");
  std::string kind = decays ? "inverse-sqrt" : "constant";
  if (!decays && factor > 0.0 && s.text("lr-decay-strategy") == "stalled") kind = "plateau";
  s.set("schedule", kind);
  s.set("peak-learning-rate", s.number("learn-rate"));
  s.set("warmup-steps", warmup_steps);
  if (warmup.value > 0.0 && s.number("lr-warmup-start-rate") > 0.0)
    s.set("warmup-from", s.number("lr-warmup-start-rate"));
  if (decays) {
    const bool counts_updates = std::all_of(decay.begin(), decay.end(),
                                            [](const MarianPeriod& period) { return period.unit == 'u'; });
    if (!counts_updates) s.missing("lr-decay-inv-sqrt", "--decay-steps counts updates", "decay-steps");
    s.set("decay-steps", static_cast<int64_t>(decay.front().value));
    if (decay.size() > 1 && decay[1].value > 0.0)
      s.set("decay-start", static_cast<int64_t>(decay[1].value));
    else if (decay.size() > 1)
      s.missing("lr-decay-inv-sqrt", "the decay cannot begin at step 0", "decay-start");
  }
  if (kind == "plateau") {
    const std::vector<double> stalled = s.numbers("lr-decay-start");
    s.set("plateau-factor", factor);
    if (!stalled.empty())
      s.set("plateau-patience", static_cast<int64_t>(std::clamp(stalled.front(), 1.0, 1e6)));
    s.differs("lr-decay",
              "the rate drops each time the count of validations without a better one is reached; "
              "--schedule plateau begins the count again after a drop");
  } else if (factor > 0.0) {
    s.missing("lr-decay",
              "a rate that drops is --schedule plateau: --lr-decay-strategy stalled, without "
              "--lr-decay-inv-sqrt",
              "schedule");
  }
}

void convert_adam(Settings& s) {
  if (s.text("optimizer") != "adam") s.missing("optimizer", "the optimizer is Adam");
  std::vector<double> parameters = s.numbers("optimizer-params");
  const double standard[] = {0.9, 0.999, 1e-8};  // of Marian's Adam
  const char* const ours[] = {"beta1", "beta2", "adam-epsilon"};
  for (size_t i = 0; i < 3; ++i) s.set(ours[i], i < parameters.size() ? parameters[i] : standard[i]);
  if (parameters.size() > 3 && parameters[3] != 0.0)
    s.missing("optimizer-params",
              "the fourth is a decay of weights; compare --weight-decay and --weight-decay-vectors");
  // Marian divides the sum of ce-sum by the number of words before it takes the norm: it logs the same gNorm
  // as with ce-mean-words.
  s.set("clip-norm", s.number("clip-norm"));
  const std::string cost = s.text("cost-type");
  if (cost != "ce-sum" && cost != "ce-mean-words" && cost != "perplexity")
    s.missing("cost-type", "the loss is the mean over the target tokens, as ce-mean-words and ce-sum train");
  const double smoothing =
      s.text("exponential-smoothing") == "true" ? 1e-4 : s.number("exponential-smoothing");
  s.set("ema", smoothing > 0.0 ? 1.0 - smoothing : 0.0);
  std::string precision = s.list("precision").empty() ? "float32" : s.list("precision").front();
  const std::string option = s.flag("fp16") ? "fp16" : "precision";
  if (option == "fp16") precision = "float16";
  if (precision != "float32" && precision != "float16" && precision != "bfloat16")
    s.refuse("precision", "float32, float16 or bfloat16");
  s.set("precision", precision == "float32" ? "f32" : "bf16");
  if (precision == "float16") s.differs(option, "--precision bf16 takes its place; it needs no scaled loss");
}

/// The period in updates; or a remark, and 0.
int64_t updates(Settings& s, const std::string& key, const std::string& ours) {
  const MarianPeriod period = s.period(key);
  if (period.unit == 'u') return static_cast<int64_t>(period.value);
  s.missing(key, fmt::format("--{} counts updates", ours), ours);
  return 0;
}

void convert_batches(Settings& s) {
  const int64_t words = s.integer("mini-batch-words");
  constexpr const char* kOurs = "batch-target-tokens";
  if (s.flag("mini-batch-fit")) {
    s.missing("mini-batch-fit",
              "batches have a fixed size, not that of the memory: give --batch-source-tokens and "
              "--batch-target-tokens, of a whole step over all devices (Marian logs it with --disp-freq as "
              "'@ WORDS')",
              kOurs);
  } else if (words > 0) {
    s.set("batch-source-tokens", words);
    s.set("batch-target-tokens", words);
    s.differs("mini-batch-words",
              "Marian counts the words of the source; here those of the target are limited too");
  } else {
    s.missing("mini-batch",
              "batches are counted in tokens, not in sentences: give --batch-source-tokens and "
              "--batch-target-tokens, the number of sentences times their mean tokens",
              kOurs);
  }
  if (s.is_changed("optimizer-delay") && s.flag("mini-batch-fit"))
    s.differs("optimizer-delay", "a step is one update: --batch-target-tokens counts all that belong to it");
  if (s.flag("gradient-checkpointing")) s.set("recompute", "yes");
  if (const int64_t steps = updates(s, "mini-batch-warmup", "batch-warmup"); steps > 0) {
    s.set("batch-warmup", steps);
    s.differs("mini-batch-warmup", "batches grow in sixteenths, and the first has one");
  }
  if (s.integer("seed") > 0) s.set("seed", s.integer("seed"));
  const int64_t threads = s.integer("cpu-threads");
  if (threads > 0) {
    s.set("device", "cpu");
    s.set("threads", threads);
  } else if (s.list("devices").size() > 1) {
    s.differs("devices", fmt::format("'mpirun -np {}' starts a rank for each", s.list("devices").size()));
  }
}

void convert_end(Settings& s) {
  constexpr int64_t kLast = 4294967295;
  int64_t epochs = s.integer("after-epochs");
  int64_t steps = s.integer("after-batches");
  const MarianPeriod after = s.period("after");
  if (after.unit == 'e' && after.value > 0.0) epochs = static_cast<int64_t>(after.value);
  if (after.unit == 'u' && after.value > 0.0) steps = static_cast<int64_t>(after.value);
  if (after.unit == 't' && after.value > 0.0)
    s.missing("after", "--max-steps counts updates, --max-epochs epochs", "max-steps");
  s.set("max-steps", steps > 0 ? std::min(steps, kLast) : kLast);
  s.set("max-epochs", epochs);
  if (const int64_t every = updates(s, "save-freq", "save-every"); every > 0) s.set("save-every", every);
  if (const int64_t every = updates(s, "disp-freq", "log-every"); every > 0) s.set("log-every", every);
  if (s.flag("overwrite"))
    s.set("keep-checkpoints", int64_t{1});
  else
    s.differs("overwrite", "the newest 10 checkpoints are kept, and the best (--keep-checkpoints)");
}

void convert_validation(Settings& s) {
  if (s.list("valid-sets").empty()) return s.set("valid-every", int64_t{0});
  if (const int64_t every = updates(s, "valid-freq", "valid-every"); every > 0) s.set("valid-every", every);
  const std::vector<std::string> metrics = s.list("valid-metrics");
  const auto has = [&](const char* name) {
    return std::any_of(metrics.begin(), metrics.end(),
                       [&](const std::string& m) { return m.starts_with(name); });
  };
  s.set("valid-bleu", yes_no(has("bleu") || has("translation")));
  s.set("valid-chrf", yes_no(has("chrf")));
  const std::string first = metrics.empty() ? "cross-entropy" : metrics.front();
  if (first.starts_with("bleu")) {
    s.set("valid-metric", "bleu");
  } else if (first == "chrf") {
    s.set("valid-metric", "chrf");
  } else if (first == "cross-entropy" || first == "ce-mean-words" || first == "perplexity") {
    // --valid-metric loss includes label smoothing, which these do not.
    s.set("valid-metric", "perplexity");
  } else {
    s.missing("valid-metrics", "the best checkpoint is by BLEU, chrF, loss or perplexity", "valid-metric");
  }
  if (has("bleu-segmented"))
    s.differs("valid-metrics", "BLEU is that of the plain text (--valid-tokenize), not of its tokens");
  s.set("patience", s.integer("early-stopping"));
  s.set("valid-beam-size", s.integer("beam-size"));
  s.set("valid-length-penalty", s.number("normalize"));
  if (s.number("normalize") > 0.0)
    s.differs("normalize", "scores are divided by ((5 + length) / 6)^N, not by length^N");
}

std::string prepare_line(const Settings& s) {
  const auto joined = [](const std::vector<std::string>& paths) {
    std::string text;
    for (const std::string& path : paths) text += " " + shell_word(path);
    return text;
  };
  if (s.list("train-sets").empty()) return "";
  std::string line = "--train-sets" + joined(s.list("train-sets"));
  if (!s.list("valid-sets").empty()) line += " --valid-sets" + joined(s.list("valid-sets"));
  const std::vector<std::string> vocabularies = s.list("vocabs");
  const bool one = vocabularies.empty() || vocabularies.front() == vocabularies.back();
  const std::vector<std::string> sizes = s.list("dim-vocabs");
  const bool given = !vocabularies.empty() && vocabularies.front().ends_with(".spm");
  if (given && one) line += " --tokenizer-model " + shell_word(vocabularies.front());
  if (given && !one)
    line += fmt::format(" --source-tokenizer-model {} --target-tokenizer-model {}",
                        shell_word(vocabularies.front()), shell_word(vocabularies.back()));
  if (!given && one && !sizes.empty() && sizes.front() != "0")
    line += " --tokenizer unigram --vocab-size " + shell_word(sizes.front());
  return line + fmt::format(" --max-length {}", s.integer("max-length"));
}

void convert_search(Settings& s) {
  const int64_t beam = s.integer("beam-size");
  s.set("beam-size", beam);
  s.set("length-penalty", s.number("normalize"));
  if (s.number("normalize") > 0.0)
    s.differs("normalize", "scores are divided by ((5 + length) / 6)^N, not by length^N");
  if (s.flag("n-best")) s.set("n-best", beam);
  s.differs("max-length-factor",
            "a translation has at most 50 tokens more than its source (--max-extra-length)");
  const std::string alignment = s.text("alignment");
  if (alignment == "soft" || alignment == "hard") {
    s.set("alignment", alignment);
  } else if (!alignment.empty()) {
    s.set("alignment", "hard");
    s.differs("alignment", "hard has one source word for each word, whatever its weight");
  }
  const std::vector<std::string> sampling = s.list("output-sampling");
  if (!sampling.empty()) {
    const bool is_topk = sampling.front() == "topk";
    if (!is_topk && sampling.front() != "full" && sampling.front() != "true")
      s.refuse("output-sampling", "full [TEMPERATURE] or topk N [TEMPERATURE]");
    if (is_topk && sampling.size() < 2) s.refuse("output-sampling", "topk N [TEMPERATURE]");
    s.set("sample", "yes");
    if (is_topk) s.set("top-k", sampling[1]);
    const size_t at = is_topk ? 2 : 1;
    if (sampling.size() > at) s.set("temperature", sampling[at]);
  }
  if (s.integer("seed") > 0) s.set("seed", s.integer("seed"));
  const std::string gemm = s.text("gemm-type");
  const std::string precision = s.text("precision");
  const bool is_int8 = gemm.starts_with("packed8") || gemm.starts_with("intgemm8");
  const bool is_half =
      s.flag("fp16") || precision.starts_with("float16") || precision.starts_with("bfloat16");
  s.set("precision", is_int8 ? "int8" : is_half ? "bf16" : "f32");
  if (is_int8) s.differs("gemm-type", "--precision int8 has scales of its own: scores differ");
  if (!is_int8 && gemm != "float32") s.missing("gemm-type", "--precision is f32, bf16 or int8", "precision");
  const int64_t threads = s.integer("cpu-threads");
  if (threads == 0) return;
  s.set("device", "cpu");
  s.set("threads", threads);
}

}  // namespace

Conversion convert_marian(MarianUse use, std::string_view yaml, const std::string& origin) {
  Settings settings(use, read_settings(yaml, origin), origin);
  if (use == MarianUse::kTraining) {
    settings.set("preset", "base");
    convert_network(settings);
    convert_regularisation(settings);
    convert_schedule(settings);
    convert_adam(settings);
    convert_batches(settings);
    convert_end(settings);
    convert_validation(settings);
    settings.conversion().prepare = prepare_line(settings);
  } else {
    convert_search(settings);
  }
  settings.remark_on_others(use);
  return settings.take();
}

MarianUse marian_use_of(std::string_view yaml, const std::string& origin) {
  const std::vector<ForeignSetting> given = read_settings(yaml, origin);
  const bool decodes = std::any_of(given.begin(), given.end(),
                                   [](const ForeignSetting& s) { return is_of_decoding_alone(s.key); });
  return decodes ? MarianUse::kDecoding : MarianUse::kTraining;
}

}  // namespace ventris
