// SPDX-License-Identifier: Apache-2.0
#include "data/scores/bleu.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "data/error.h"
#include "data/scores/score_text.h"
#include "data/text/unicode.h"

namespace ventris::data {

namespace {

double smoothing_value(const BleuOptions& options) {
  if (options.smoothing_value >= 0.0) return options.smoothing_value;
  return options.smoothing == BleuSmoothing::kFloor ? 0.1 : 1.0;
}

/// The logarithm used for a precision of zero: it makes the score zero.
double log_or_very_small(double x) {
  return x == 0.0 ? -9999999999.0 : std::log(x);
}

/// The score of a sum of rows, with precisions of type Real; `result`, if not null, receives them and the
/// brevity penalty. The order of the operations is that of sacreBLEU, so that even single precision gives its
/// bits.
template <typename Real>
double score_of(std::span<const Real> statistics, const BleuOptions& options, BleuScore* result) {
  const auto orders = static_cast<size_t>(options.max_ngram_order);
  const auto hypothesis_length = static_cast<double>(statistics[0]);
  const auto reference_length = static_cast<double>(statistics[1]);
  const std::span<const Real> all_correct = statistics.subspan(2, orders);
  const std::span<const Real> all_total = statistics.subspan(2 + orders, orders);
  std::array<Real, kMaxBleuOrder> precisions{};
  double brevity_penalty = 1.0;
  if (hypothesis_length < reference_length)
    brevity_penalty = hypothesis_length > 0 ? std::exp(1.0 - reference_length / hypothesis_length) : 0.0;
  if (result != nullptr) {
    result->brevity_penalty = brevity_penalty;
    result->precisions.assign(orders, 0.0);
  }
  if (std::all_of(all_correct.begin(), all_correct.end(), [](Real c) { return c == 0; })) return 0.0;

  const double value = smoothing_value(options);
  double divisor = 1.0;
  size_t used_orders = orders;
  for (size_t n = 0; n < orders; ++n) {
    const Real added =
        options.smoothing == BleuSmoothing::kAddK && n > 0 ? static_cast<Real>(value) : Real{0};
    const Real correct = all_correct[n] + added;
    const Real total = all_total[n] + added;
    if (total == 0) break;
    if (options.effective_order) used_orders = n + 1;
    if (correct != 0) {
      precisions[n] = Real{100} * correct / total;
    } else if (options.smoothing == BleuSmoothing::kExp) {
      divisor *= 2.0;
      precisions[n] = Real{100} / (static_cast<Real>(divisor) * total);
    } else if (options.smoothing == BleuSmoothing::kFloor) {
      precisions[n] = static_cast<Real>(100.0 * value) / total;
    }
  }
  double logs = 0.0;
  for (size_t n = 0; n < used_orders; ++n) logs += log_or_very_small(static_cast<double>(precisions[n]));
  if (result != nullptr) std::copy_n(precisions.begin(), orders, result->precisions.begin());
  return brevity_penalty * std::exp(logs / static_cast<double>(used_orders));
}

}  // namespace

const char* name_of(BleuTokenizer tokenizer) {
  switch (tokenizer) {
    case BleuTokenizer::k13a:
      return "13a";
    case BleuTokenizer::kNone:
      return "none";
    case BleuTokenizer::kChar:
      return "char";
    case BleuTokenizer::kInternational:
      return "intl";
    case BleuTokenizer::kChinese:
      return "zh";
  }
  return "";
}

std::optional<BleuTokenizer> bleu_tokenizer_named(std::string_view name) {
  for (const BleuTokenizer tokenizer : kBleuTokenizers) {
    if (name == name_of(tokenizer)) return tokenizer;
  }
  return std::nullopt;
}

const char* name_of(BleuSmoothing smoothing) {
  switch (smoothing) {
    case BleuSmoothing::kExp:
      return "exp";
    case BleuSmoothing::kFloor:
      return "floor";
    case BleuSmoothing::kAddK:
      return "add-k";
    case BleuSmoothing::kNone:
      return "none";
  }
  return "";
}

std::vector<int32_t> BleuCounter::symbols_of(std::string_view line) {
  std::vector<int32_t> symbols;
  for (const std::u32string_view word : split_words(lines_.emplace_back(bleu_text(line, options_))))
    symbols.push_back(numbers_.number(word));
  return symbols;
}

std::vector<double> BleuCounter::count(std::string_view hypothesis,
                                       std::span<const std::string_view> references) {
  numbers_.clear();
  lines_.clear();
  const std::vector<int32_t> symbols = symbols_of(hypothesis);
  matches_.set_hypothesis(symbols, options_.max_ngram_order);
  const auto length = std::ssize(symbols);
  int64_t closest = 0;
  std::array<int64_t, kMaxBleuOrder> correct{};
  for (size_t r = 0; r < references.size(); ++r) {
    const std::vector<int32_t> reference = symbols_of(references[r]);
    matches_.add_reference(reference, correct.data());
    const auto order = [length](int64_t any) { return std::pair(std::abs(length - any), any); };
    if (r == 0 || order(std::ssize(reference)) < order(closest)) closest = std::ssize(reference);
  }
  std::vector<double> row = {static_cast<double>(length), static_cast<double>(closest)};
  row.insert(row.end(), correct.begin(), correct.begin() + options_.max_ngram_order);
  for (int n = 0; n < options_.max_ngram_order; ++n)
    row.push_back(static_cast<double>(std::max<int64_t>(length - n, 0)));
  return row;
}

BleuScore bleu_score(std::span<const double> statistics, const BleuOptions& options) {
  BleuScore result;
  result.hypothesis_length = static_cast<int64_t>(statistics[0]);
  result.reference_length = static_cast<int64_t>(statistics[1]);
  result.score = score_of<double>(statistics, options, &result);
  return result;
}

double bleu_of_resample(std::span<const float> statistics, const BleuOptions& options) {
  return score_of<float>(statistics, options, nullptr);
}

std::string bleu_signature(const BleuOptions& options, int references, const std::string& trials) {
  std::string smoothing = name_of(options.smoothing);
  if (options.smoothing == BleuSmoothing::kFloor || options.smoothing == BleuSmoothing::kAddK) {
    smoothing += fmt::format("[{:.2f}]", smoothing_value(options));
  }
  return fmt::format("nrefs:{}|{}{}case:{}|eff:{}|tok:{}|smooth:{}|version:{}", references, trials,
                     trials.empty() ? "" : "|", options.lowercase ? "lc" : "mixed",
                     options.effective_order ? "yes" : "no", name_of(options.tokenizer), smoothing,
                     kSacrebleuVersion);
}

std::string bleu_details(const BleuScore& score) {
  const double ratio = score.reference_length == 0 ? 0.0
                                                   : static_cast<double>(score.hypothesis_length) /
                                                         static_cast<double>(score.reference_length);
  std::string precisions;
  for (const double precision : score.precisions)
    precisions += fmt::format("{}{:.1f}", precisions.empty() ? "" : "/", precision);
  return fmt::format("{} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})", precisions,
                     score.brevity_penalty, ratio, score.hypothesis_length, score.reference_length);
}

std::optional<MosesLanguage> paper_language(const ProtocolOptions& options, BleuOptions& bleu) {
  if (!options.paper) {
    if (!options.language.empty()) fail(ErrorKind::kUsage, "--language is for --protocol paper");
    return std::nullopt;
  }
  const BleuOptions usual;
  if (bleu.tokenizer != usual.tokenizer || bleu.smoothing != usual.smoothing || bleu.lowercase ||
      bleu.effective_order || bleu.smoothing_value >= 0 || bleu.max_ngram_order != usual.max_ngram_order) {
    fail(
        ErrorKind::kUsage,
        "--protocol paper fixes how BLEU is computed; it cannot be combined with other options of BLEU, such as "
        "--tokenize and --lowercase");
  }
  bleu = {.tokenizer = BleuTokenizer::kNone, .smoothing = BleuSmoothing::kNone};
  for (const auto language :
       {MosesLanguage::kEnglish, MosesLanguage::kGerman, MosesLanguage::kFrench, MosesLanguage::kCzech}) {
    if (options.language == name_of(language)) return language;
  }
  fail(ErrorKind::kUsage, "--protocol paper needs the --language of the text: en, de, fr or cs{}",
       options.language.empty() ? "" : fmt::format(", not '{}'", options.language));
}

std::string paper_words(std::string_view line, MosesLanguage language) {
  return split_compounds(moses_tokenize(moses_replace_unicode_punctuation(line), language));
}

void to_paper_words(std::vector<std::string>& lines, MosesLanguage language) {
  for (std::string& line : lines) line = paper_words(line, language);
}

std::string paper_signature(MosesLanguage language, int references, const std::string& trials) {
  return fmt::format("nrefs:{}|{}{}case:mixed|punct:ascii|tok:moses-{}|compounds:split|smooth:none",
                     references, trials, trials.empty() ? "" : "|", name_of(language));
}

namespace {

using Text = std::u32string;

bool is_digit(char32_t c) {
  return c >= U'0' && c <= U'9';
}

/// ASCII punctuation other than ' . , - and the space.
bool is_separated(char32_t c) {
  return (c >= U'{' && c <= U'~') || (c >= U'[' && c <= U'`') || (c >= U' ' && c <= U'&') ||
         (c >= U'(' && c <= U'+') || (c >= U':' && c <= U'@') || c == U'/';
}

/// What mteval-v13a and the tokenizer zh of sacreBLEU share: punctuation stands alone, so do periods and
/// commas that are not inside numbers, and a dash after a digit.
Text separate_punctuation(const Text& text) {
  const auto not_digit = [](char32_t c) { return !is_digit(c); };
  const auto period_or_comma = [](char32_t c) { return c == U'.' || c == U','; };
  const auto dash = [](char32_t c) { return c == U'-'; };
  Text result = separate_single(text, is_separated);
  result = separate_pairs(result, not_digit, period_or_comma, U"", U" ", U" ");
  result = separate_pairs(result, period_or_comma, not_digit, U" ", U" ", U"");
  return separate_pairs(result, is_digit, dash, U"", U" ", U" ");
}

/// mteval-v13a.
Text tokenize_13a(Text text) {
  const std::pair<const char32_t*, const char32_t*> kReplacements[] = {
      {U"<skipped>", U""}, {U"-\n", U""},   {U"\n", U" "},  {U"&quot;", U"\""},
      {U"&amp;", U"&"},    {U"&lt;", U"<"}, {U"&gt;", U">"}};
  for (const auto& [from, to] : kReplacements) replace_all<Text>(text, from, to);
  return separate_punctuation(U' ' + text + U' ');
}

/// The characters that are separate words for sacreBLEU's tokenizer zh. Its table is meant to have the
/// supplementary ideographs (U+20000 to U+2A6D6 and U+2F800 to U+2FA1D) but has U+2001 to U+2A6D and U+2F81
/// to U+2FA1.
bool stands_alone_in_chinese(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x2001, 0x2A6D}, {0x2E80, 0x2EFF}, {0x2F00, 0x2FDF}, {0x2FF0, 0x2FFF}, {0x3000, 0x303F},
      {0x3100, 0x312F}, {0x31A0, 0x31BF}, {0x31C0, 0x31EF}, {0x3200, 0x33FF}, {0x3400, 0x4DB5},
      {0x4E00, 0x9FBB}, {0xF900, 0xFA2D}, {0xFA30, 0xFA6A}, {0xFA70, 0xFAD9}, {0xFE10, 0xFE1F},
      {0xFE30, 0xFE4F}, {0xFF00, 0xFFEF}};
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [c](const auto& range) { return c >= range.first && c <= range.second; });
}

/// mteval-v14 --international-tokenization.
Text tokenize_international(const Text& text) {
  const auto not_number = [](char32_t c) { return !unicode::is_number(c); };
  Text result = separate_pairs(text, not_number, unicode::is_punctuation, U"", U" ", U" ");
  result = separate_pairs(result, unicode::is_punctuation, not_number, U" ", U" ", U"");
  return separate_single(result, unicode::is_symbol);
}

}  // namespace

std::u32string bleu_text(std::string_view line, const BleuOptions& options) {
  Text text = unicode::decode(line);
  if (options.lowercase) text = unicode::lower(text);
  text.resize(rstrip(text).size());
  switch (options.tokenizer) {
    case BleuTokenizer::k13a:
      return tokenize_13a(std::move(text));
    case BleuTokenizer::kInternational:
      return tokenize_international(text);
    case BleuTokenizer::kChar:
      return separate_single(text, [](char32_t) { return true; });
    case BleuTokenizer::kChinese:
      text.erase(0, static_cast<size_t>(std::ranges::find_if_not(text, unicode::is_space) - text.begin()));
      return separate_punctuation(separate_single(text, stands_alone_in_chinese));
    case BleuTokenizer::kNone:
      break;
  }
  return text;
}

std::string bleu_tokenize(std::string_view line, const BleuOptions& options) {
  const Text text = bleu_text(line, options);
  Text joined;
  for (const std::u32string_view word : split_words(text)) {
    if (!joined.empty()) joined.push_back(U' ');
    joined.append(word);
  }
  return unicode::encode(joined);
}

}  // namespace ventris::data
