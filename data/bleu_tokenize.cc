#include <string>
#include <string_view>

#include "data/bleu.h"
#include "data/bleu_unicode.h"

namespace ventris::data {
namespace {

/// re.sub of a pattern of two character classes by "`before` \1 `between` \2 `after`": matches do not
/// overlap.
template <typename First, typename Second>
std::u32string separate_pairs(const std::u32string& text, First&& first, Second&& second,
                              std::u32string_view before, std::u32string_view between,
                              std::u32string_view after) {
  std::u32string result;
  result.reserve(text.size() + text.size() / 2);
  size_t i = 0;
  for (; i + 1 < text.size(); ++i) {
    if (!first(text[i]) || !second(text[i + 1])) {
      result.push_back(text[i]);
      continue;
    }
    result.append(before);
    result.push_back(text[i]);
    result.append(between);
    result.push_back(text[i + 1]);
    result.append(after);
    ++i;
  }
  if (i < text.size()) result.push_back(text[i]);
  return result;
}

template <typename Class>
std::u32string separate_single(const std::u32string& text, Class&& member) {
  std::u32string result;
  result.reserve(text.size() + text.size() / 2);
  for (const char32_t c : text) {
    if (member(c)) {
      result.append({U' ', c, U' '});
    } else {
      result.push_back(c);
    }
  }
  return result;
}

void replace_all(std::u32string& text, std::u32string_view from, std::u32string_view to) {
  for (size_t at = text.find(from); at != std::u32string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// ' '.join(text.split())
std::u32string single_spaces(const std::u32string& text) {
  std::u32string result;
  result.reserve(text.size());
  bool pending = false;
  for (const char32_t c : text) {
    if (unicode::is_space(c)) {
      pending = !result.empty();
      continue;
    }
    if (pending) result.push_back(U' ');
    pending = false;
    result.push_back(c);
  }
  return result;
}

/// mteval-v13a.
std::u32string tokenize_13a(std::u32string text) {
  replace_all(text, U"<skipped>", U"");
  replace_all(text, U"-\n", U"");
  replace_all(text, U"\n", U" ");
  if (text.find(U'&') != std::u32string::npos) {
    replace_all(text, U"&quot;", U"\"");
    replace_all(text, U"&amp;", U"&");
    replace_all(text, U"&lt;", U"<");
    replace_all(text, U"&gt;", U">");
  }
  text = U' ' + text + U' ';
  const auto digit = [](char32_t c) { return c >= '0' && c <= '9'; };
  const auto not_digit = [&](char32_t c) { return !digit(c); };
  const auto period_or_comma = [](char32_t c) { return c == '.' || c == ','; };
  const auto dash = [](char32_t c) { return c == '-'; };
  text = separate_single(text, [](char32_t c) {
    return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
           (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
  });
  text = separate_pairs(text, not_digit, period_or_comma, U"", U" ", U" ");
  text = separate_pairs(text, period_or_comma, not_digit, U" ", U" ", U"");
  return separate_pairs(text, digit, dash, U"", U" ", U" ");
}

/// mteval-v14 --international-tokenization.
std::u32string tokenize_international(std::u32string text) {
  const auto not_number = [](char32_t c) { return !unicode::is_number(c); };
  text = separate_pairs(text, not_number, unicode::is_punctuation, U"", U" ", U" ");
  text = separate_pairs(text, unicode::is_punctuation, not_number, U" ", U" ", U"");
  return separate_single(text, unicode::is_symbol);
}

}  // namespace

std::string bleu_tokenize(std::string_view line, const BleuOptions& options) {
  std::u32string text = unicode::decode(line);
  if (options.lowercase) text = unicode::lower(text);
  while (!text.empty() && unicode::is_space(text.back())) text.pop_back();
  switch (options.tokenizer) {
    case BleuTokenizer::k13a:
      text = tokenize_13a(std::move(text));
      break;
    case BleuTokenizer::kInternational:
      text = tokenize_international(std::move(text));
      break;
    case BleuTokenizer::kChar:
      text = separate_single(text, [](char32_t) { return true; });
      break;
    case BleuTokenizer::kNone:
      break;
  }
  return unicode::encode(single_spaces(text));
}

}  // namespace ventris::data
