// SPDX-License-Identifier: Apache-2.0
#include "trainer/exchange/marian_config.h"

#include <fmt/core.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <boost/iostreams/device/array.hpp>
#include <boost/iostreams/stream.hpp>
#include <charconv>
#include <cmath>
#include <map>
#include <type_traits>
#include <utility>

#include "backend/device/error.h"
#include "data/io/json_value.h"

namespace ventris {
namespace {

/// A value of a file, for a message.
constexpr size_t kMaxQuotedValue = 100;
/// Marian writes about 2 KiB of settings, and about 20 bytes a token.
constexpr size_t kMaxConfigBytes = size_t{32} << 10;
constexpr size_t kMaxTokenBytes = 128;

/// Takes one entry of the map and its line, counted from 1. The values of a list are joined by commas.
using TakeEntry = std::function<void(const std::string& key, const std::string& value, int line)>;

/// The events of a document that is one map of values and lists of values. It builds no tree, and refuses
/// what is deeper where it begins, and references to other values, however much they would expand to.
class FlatMap : public YAML::EventHandler {
 public:
  FlatMap(const std::string& origin, const TakeEntry& take) : origin_(origin), take_(take) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    if (depth_ > 0) add(mark, "");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string& value) override {
    if (depth_ == 0) refuse(mark);
    add(mark, value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    if (depth_ != 1 || !has_key_) refuse(mark);
    depth_ = 2;
    list_.clear();
  }
  void OnSequenceEnd() override {
    depth_ = 1;
    has_key_ = false;
    take_(key_, list_, line_);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    if (depth_ > 0) refuse(mark);
    depth_ = 1;
  }
  void OnMapEnd() override { depth_ = 0; }

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& reason = "") const {
    fail(ExitCode::kBadData, "{}:{}: {}expected are lines of YAML such as \"key: value\"", origin_,
         mark.line + 1, reason.empty() ? reason : reason + "; ");
  }

 private:
  void add(const YAML::Mark& mark, const std::string& value) {
    if (depth_ == 2) {
      list_ += (list_.empty() ? "" : ",") + value;
    } else if (has_key_) {
      has_key_ = false;
      take_(key_, value, line_);
    } else {
      has_key_ = true;
      key_ = value;
      line_ = mark.line + 1;
    }
  }

  const std::string& origin_;
  const TakeEntry& take_;
  int depth_ = 0;  // 1 in the map, 2 in a list of it
  bool has_key_ = false;
  std::string key_;
  std::string list_;
  int line_ = 0;  // of the key
};

/// Throws Error(kBadData), naming `origin` and the line, for any other YAML.
void read_flat_map(std::string_view yaml, size_t max_bytes, const std::string& origin,
                   const TakeEntry& take) {
  // yaml-cpp keeps up to 250 times the text of nested lists in memory.
  if (yaml.size() > max_bytes)
    fail(ExitCode::kBadData, "{}: {} bytes of YAML; expected are at most {}", origin, yaml.size(), max_bytes);
  FlatMap map(origin, take);
  try {
    boost::iostreams::stream<boost::iostreams::array_source> stream(yaml.data(), yaml.size());
    YAML::Parser(stream).HandleNextDocument(map);
  } catch (const YAML::Exception& error) {
    map.refuse(error.mark, error.msg);
  }
}

/// The values of a configuration by key.
class Settings {
 public:
  Settings(std::string_view yaml, std::string origin) : origin_(std::move(origin)) {
    read_flat_map(yaml.substr(0, yaml.find('\0')), kMaxConfigBytes, origin_,
                  [&](const std::string& key, const std::string& value, int) { values_[key] = value; });
  }

  std::string get(const std::string& key, const std::string& fallback) const {
    const auto found = values_.find(key);
    return found == values_.end() ? fallback : found->second;
  }
  template <typename T>
  T number(const std::string& key, T fallback) const {
    const auto found = values_.find(key);
    if (found == values_.end()) return fallback;
    T value{};
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    bool good = error == std::errc() && end == text.data() + text.size();
    if constexpr (std::is_floating_point_v<T>) good = good && std::isfinite(value);
    if (!good) {
      fail(ExitCode::kBadData, "{}: {} of the model's configuration is '{}'; expected is {}", origin_, key,
           text, data::expected_json_value<T>());
    }
    return value;
  }
  void require(const std::string& key, const std::vector<std::string>& allowed) const {
    const std::string value = get(key, allowed.front());
    for (const std::string& choice : allowed) {
      if (value == choice) return;
    }
    fail(ExitCode::kBadData, "{}: {} of the model is '{}', which our model does not support; it must be '{}'",
         origin_, key, value, allowed.front());
  }

 private:
  std::string origin_;
  std::map<std::string, std::string> values_;
};

/// Whether the first two numbers of a version such as 'v1.9.0 ba91b39 2020-02-10' are present and below 1.11.
bool before_1_11(std::string_view version) {
  if (version.starts_with('v')) version.remove_prefix(1);
  const char* const end = version.data() + version.size();
  int64_t major = 0;
  int64_t minor = 0;
  const auto [dot, error] = std::from_chars(version.data(), end, major);
  if (error != std::errc() || dot == end || *dot != '.') return false;
  if (std::from_chars(dot + 1, end, minor).ec != std::errc()) return false;
  return major < 1 || (major == 1 && minor < 11);
}

/// Marian's pre-norm had LayerNorm for the queries of self-attention alone until 1.11.0.
void refuse_old_pre_norm(const Settings& settings, const std::string& origin) {
  const std::string version = settings.get("version", "");
  if (!before_1_11(version)) return;
  fail(ExitCode::kBadData,
       "{}: the model is pre-norm and of Marian '{}', "
       "where keys and values of self-attention had no LayerNorm; they have it in Marian since 1.11.0, "
       "and in our model: continue its training with a newer Marian, or use a post-norm model",
       origin, version);
}

/// Marian's switches tie the output layer to the target embedding, and that to the source embedding.
Tie tie_of(const Settings& settings, const std::string& origin) {
  const auto is_on = [&](const char* key) {
    settings.require(key, {"false", "true"});
    return settings.get(key, "false") == "true";
  };
  const bool all = is_on("tied-embeddings-all");
  const bool output = is_on("tied-embeddings") || all;
  const bool source = is_on("tied-embeddings-src") || all;
  if (source && !output) {
    fail(ExitCode::kBadData,
         "{}: tied-embeddings-src of the model is 'true' without tied-embeddings, which our model does not "
         "support: with one embedding for both sides the output layer must have it too (tied-embeddings-all)",
         origin);
  }
  return source ? Tie::kAll : output ? Tie::kDecoder : Tie::kNone;
}

void set_vocabularies(const Settings& settings, const std::string& origin, TransformerConfig& config) {
  const std::string sizes = settings.get("dim-vocabs", "");
  const char* const end = sizes.data() + sizes.size();
  int64_t of_sources = 0;
  const auto first = std::from_chars(sizes.data(), end, of_sources);
  const bool two = first.ec == std::errc() && first.ptr != end && *first.ptr == ',';
  const auto second = std::from_chars(two ? first.ptr + 1 : end, end, config.vocab_size);
  const bool one_table = config.tie == Tie::kAll;
  if (second.ec != std::errc() || second.ptr != end || (one_table && of_sources != config.vocab_size)) {
    fail(ExitCode::kBadData, "{}: dim-vocabs of the model are '{}'; expected {}", origin, sizes,
         one_table ? "the same number twice" : "two numbers");
  }
  if (!one_table) config.source_vocab_size = of_sources;
}

}  // namespace

TransformerConfig marian_config(const std::string& yaml, const std::string& origin) {
  const Settings settings(yaml, origin);
  if (settings.get("type", "") != "transformer") {
    fail(ExitCode::kBadData, "{}: its type is '{}', not 'transformer'", origin, settings.get("type", ""));
  }
  const std::pair<const char*, std::vector<std::string>> allowed[] = {
      {"transformer-decoder-autoreg", {"self-attention"}},
      {"transformer-ffn-activation", {"swish", "relu"}},
      {"transformer-ffn-depth", {"2"}},
      {"transformer-decoder-ffn-depth", {"0", "2"}},
      {"transformer-decoder-dim-ffn", {"0", settings.get("transformer-dim-ffn", "0")}},
      {"transformer-attention-mask", {"default"}},
      {"transformer-tied-layers", {"", "[]"}},
      {"transformer-no-projection", {"false"}},
      {"transformer-no-bias", {"false"}},
      {"transformer-no-affine", {"false"}},
      {"transformer-rnn-projection", {"false"}},
      {"transformer-pool", {"false"}},
      {"transformer-train-position-embeddings", {"false"}},
      {"transformer-disable-position-embeddings", {"false"}},
      {"transformer-postprocess-emb", {"d", ""}},
      {"right-left", {"false"}},
      {"ulr", {"false"}},
      {"lemma-dim-emb", {"0"}},
      {"output-omit-bias", {"false", "true"}}};
  for (const auto& [key, values] : allowed) settings.require(key, values);
  TransformerConfig config;
  config.marian_positions = true;
  config.layer_norm_epsilon = 1e-6F;
  config.zero_start = true;
  config.activation = *activation_named(settings.get("transformer-ffn-activation", "swish"));
  config.pre_norm = settings.get("transformer-preprocess", "") == "n";
  if (config.pre_norm) refuse_old_pre_norm(settings, origin);
  settings.require("transformer-preprocess", {config.pre_norm ? "n" : ""});
  settings.require("transformer-postprocess", {config.pre_norm ? "da" : "dan"});
  settings.require("transformer-postprocess-top", {config.pre_norm ? "n" : ""});
  config.encoder_layers = settings.number("enc-depth", 0);
  config.decoder_layers = settings.number("dec-depth", 0);
  config.d_model = settings.number("dim-emb", 0);
  config.d_ff = settings.number("transformer-dim-ffn", 0);
  config.heads = settings.number("transformer-heads", 0);
  config.max_positions = settings.number("max-length", config.max_positions);
  config.dropout = settings.number("transformer-dropout", config.dropout);
  config.attention_dropout = settings.number("transformer-dropout-attention", config.attention_dropout);
  config.activation_dropout = settings.number("transformer-dropout-ffn", config.activation_dropout);
  config.label_smoothing = settings.number("label-smoothing", config.label_smoothing);
  config.tie = tie_of(settings, origin);
  config.output_bias = settings.get("output-omit-bias", "false") == "false";
  set_vocabularies(settings, origin, config);
  config.validate();
  return config;
}

std::vector<int32_t> marian_token_ids(std::string_view yaml, const std::string& origin, int32_t tokens,
                                      const std::function<int32_t(std::string_view)>& find) {
  std::vector<int32_t> ids(static_cast<size_t>(tokens), -1);
  std::vector<bool> given(ids.size());
  int64_t entries = 0;
  const size_t max_bytes = kMaxConfigBytes + kMaxTokenBytes * static_cast<size_t>(tokens);
  read_flat_map(yaml, max_bytes, origin, [&](const std::string& token, const std::string& text, int line) {
    const auto refuse = [&](std::string_view what) {
      fail(ExitCode::kBadData, "{}:{}: {}; expected a line such as \"token\": 7", origin, line, what);
    };
    int64_t id = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (error != std::errc() || end != text.data() + text.size()) refuse("no id");
    if (id < 0 || id >= tokens) refuse(fmt::format("an id beyond the {} tokens of the model", tokens));
    const int32_t ours = find(token);
    if (ours < 0)
      refuse(
          fmt::format("the token '{}' is not in the SentencePiece model", token.substr(0, kMaxQuotedValue)));
    int32_t& place = ids[static_cast<size_t>(ours)];
    if (place >= 0 || given[static_cast<size_t>(id)]) refuse("a token or id again");
    place = static_cast<int32_t>(id);
    given[static_cast<size_t>(id)] = true;
    ++entries;
  });
  if (entries != tokens) {
    fail(ExitCode::kBadData, "{}: the vocabulary has {} tokens, but the SentencePiece model has {}", origin,
         entries, tokens);
  }
  return ids;
}

}  // namespace ventris
