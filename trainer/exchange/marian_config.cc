// SPDX-License-Identifier: Apache-2.0
#include "trainer/exchange/marian_config.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <map>
#include <type_traits>
#include <utility>

#include "backend/error.h"
#include "data/text/text_reader.h"
#include "trainer/files/json_number.h"

// The part of YAML that Marian writes: one `key: value` a line, lists as indented `- value` lines, scalars
// plain or quoted.

namespace ventris {
namespace {

/// A value of a file, for a message.
constexpr size_t kMaxQuotedValue = 100;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r' || text.back() == '\0')) {
    text.remove_suffix(1);
  }
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

void append_utf8(uint32_t code, std::string& text) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
  } else if (code < 0x10000) {
    text += {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
             static_cast<char>(0x80 | (code & 0x3F))};
  } else {
    text += {static_cast<char>(0xF0 | (code >> 18 & 7)), static_cast<char>(0x80 | (code >> 12 & 0x3F)),
             static_cast<char>(0x80 | (code >> 6 & 0x3F)), static_cast<char>(0x80 | (code & 0x3F))};
  }
}

/// A YAML scalar; false if its quotes or escapes are damaged.
bool unquoted(std::string_view text, std::string& value) {
  value.clear();
  const char quote = text.empty() ? ' ' : text.front();
  if (quote != '"' && quote != '\'') {
    value = text;
    return true;
  }
  if (text.size() < 2 || text.back() != quote) return false;
  text = text.substr(1, text.size() - 2);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == quote) {
      if (quote == '"' || i + 1 == text.size() || text[++i] != quote) return false;
      value += quote;
    } else if (quote == '"' && text[i] == '\\') {
      if (++i == text.size()) return false;
      const size_t digits = text[i] == 'x' ? 2 : text[i] == 'u' ? 4 : text[i] == 'U' ? 8 : 0;
      if (digits > 0) {
        uint32_t code = 0;
        const std::string_view hex = text.substr(i + 1, digits);
        const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
        if (error != std::errc() || end != hex.data() + digits) return false;
        append_utf8(code, value);
        i += digits;
      } else {
        constexpr std::string_view kNames = "0abtnvfre \"/\\NL_P";
        const size_t which = kNames.find(text[i]);
        if (which == std::string_view::npos) return false;
        constexpr uint32_t kCodes[] = {0,    7,    8,    9,    10,   11,     12,   13,    27,
                                       0x20, 0x22, 0x2F, 0x5C, 0x85, 0x2028, 0xA0, 0x2029};
        append_utf8(kCodes[which], value);
      }
    } else {
      value += text[i];
    }
  }
  return true;
}

/// Calls each(line, number), numbers from 1, for lines that are not empty.
template <typename Each>
void for_each_line(std::string_view text, Each&& each) {
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (!trimmed(line).empty()) each(line, number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

/// The scalars of a configuration by key; those of a list joined by commas.
class Settings {
 public:
  Settings(std::string_view yaml, std::string origin) : origin_(std::move(origin)) {
    std::string key;
    for_each_line(yaml, [&](std::string_view line, int64_t) {
      std::string value;
      if (line.front() == ' ' || line.front() == '-') {
        std::string_view item = trimmed(line);
        if (!item.starts_with("- ") || !unquoted(trimmed(item.substr(2)), value)) return;
        std::string& list = values_[key];
        list += (list.empty() ? "" : ",") + value;
        return;
      }
      const size_t colon = line.find(':');
      if (colon == std::string_view::npos || !unquoted(trimmed(line.substr(colon + 1)), value)) return;
      key = line.substr(0, colon);
      values_[key] = value;
    });
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
           text, expected_number<T>());
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
  // Marian's configurations take a few KiB; parsed they take many times their size.
  constexpr size_t kMaxBytes = size_t{64} << 10;
  if (yaml.size() > kMaxBytes) {
    fail(ExitCode::kBadData, "{}: the model's configuration has {} bytes, more than {}", origin, yaml.size(),
         kMaxBytes);
  }
  const Settings settings(yaml, origin);
  if (settings.get("type", "") != "transformer") {
    fail(ExitCode::kBadData, "{}: its type is '{}', not 'transformer'", origin, settings.get("type", ""));
  }
  settings.require("transformer-decoder-autoreg", {"self-attention"});
  settings.require("transformer-ffn-activation", {"swish", "relu"});
  settings.require("transformer-ffn-depth", {"2"});
  settings.require("transformer-decoder-ffn-depth", {"0", "2"});
  settings.require("transformer-decoder-dim-ffn", {"0", settings.get("transformer-dim-ffn", "0")});
  settings.require("transformer-attention-mask", {"default"});
  settings.require("transformer-tied-layers", {"", "[]"});
  for (const char* variant : {"transformer-no-projection", "transformer-no-bias", "transformer-no-affine",
                              "transformer-rnn-projection", "transformer-pool"}) {
    settings.require(variant, {"false"});
  }
  settings.require("transformer-train-position-embeddings", {"false"});
  settings.require("transformer-disable-position-embeddings", {"false"});
  settings.require("transformer-postprocess-emb", {"d", ""});
  settings.require("right-left", {"false"});
  settings.require("ulr", {"false"});
  settings.require("lemma-dim-emb", {"0"});
  TransformerConfig config;
  config.marian_positions = true;
  config.layer_norm_epsilon = 1e-6F;
  config.zero_start = true;
  config.swish = settings.get("transformer-ffn-activation", "swish") == "swish";
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
  config.dropout_source = settings.number("dropout-src", config.dropout_source);
  config.dropout_target = settings.number("dropout-trg", config.dropout_target);
  config.label_smoothing = settings.number("label-smoothing", config.label_smoothing);
  config.tie = tie_of(settings, origin);
  settings.require("output-omit-bias", {"false", "true"});
  config.output_bias = settings.get("output-omit-bias", "false") == "false";
  set_vocabularies(settings, origin, config);
  config.validate();
  return config;
}

std::vector<int32_t> marian_token_ids(std::string_view yaml, const std::string& origin, int32_t tokens,
                                      const std::function<int32_t(std::string_view)>& find) {
  std::vector<int32_t> ids(static_cast<size_t>(tokens), -1);
  std::vector<bool> given(ids.size());
  int64_t lines = 0;
  std::string token;
  for_each_line(data::without_byte_order_mark(yaml), [&](std::string_view line, int64_t number) {
    const auto refuse = [&](std::string_view what) {
      fail(ExitCode::kBadData, "{}:{}: {}; expected a line such as \"token\": 7", origin, number, what);
    };
    const size_t colon = line.rfind(':');
    if (colon == std::string_view::npos || !unquoted(trimmed(line.substr(0, colon)), token))
      refuse("no token");
    const std::string_view text = trimmed(line.substr(colon + 1));
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
    ++lines;
  });
  if (lines != tokens) {
    fail(ExitCode::kBadData, "{}: the vocabulary has {} tokens, but the SentencePiece model has {}", origin,
         lines, tokens);
  }
  return ids;
}

}  // namespace ventris
