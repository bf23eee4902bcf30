// SPDX-License-Identifier: Apache-2.0
#include "data/scores/moses_tokenize.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "data/scores/score_text.h"
#include "data/text/unicode.h"

namespace ventris::data {

namespace {

/// Whether a period after `word` belongs to it: always, before numbers only, or never.
enum class PeriodRule { kNever, kBeforeNumbers, kAlways };

using PrefixWords = std::span<const std::u32string_view>;

/// Abbreviations of a language, whose period does not end a sentence. Case-sensitive.
struct Prefixes {
  PrefixWords always;
  PrefixWords before_numbers;
};

// Words of the lists of Moses that occur in the corpora of the tests, and the most frequent others.
constexpr std::u32string_view kEnglish[] = {
    // Titles
    U"Adm", U"Bart", U"Brig", U"Bros", U"Capt", U"Cmdr", U"Col", U"Corp", U"Dr", U"Gen", U"Gov", U"Hon",
    U"Lt", U"Maj", U"Messrs", U"Mlle", U"Mme", U"Mr", U"Mrs", U"Ms", U"Op", U"Ph", U"Prof", U"Rep", U"Reps",
    U"Rev", U"Rt", U"Sen", U"Sens", U"Sgt", U"Sr", U"St", U"DR", U"MR", U"MRS", U"MS",
    // Months
    U"Jan", U"Feb", U"Mar", U"Apr", U"Jun", U"Jul", U"Aug", U"Sep", U"Sept", U"Oct", U"Nov", U"Dec",
    // Others
    U"Nos", U"Nr", U"rev", U"v", U"vs"};
constexpr std::u32string_view kEnglishNumbers[] = {U"Art", U"No", U"pp"};

constexpr std::u32string_view kGerman[] = {
    // Roman numbers
    U"I", U"II", U"III", U"IV", U"V", U"VI", U"VII", U"VIII", U"IX", U"X", U"XI", U"XII", U"XIII", U"XIV",
    U"XV", U"XVI", U"XVII", U"XVIII", U"XIX", U"XX", U"i", U"ii", U"iii", U"iv", U"v", U"vi", U"vii", U"viii",
    U"ix", U"x", U"xi", U"xii", U"xiii", U"xiv", U"xv", U"xvi", U"xvii", U"xviii", U"xix", U"xx",
    // Titles
    U"Adm", U"Bart", U"Brig", U"Bros", U"Capt", U"Cmdr", U"Col", U"Corp", U"Dr", U"Gen", U"Gov", U"Hon",
    U"Lt", U"Maj", U"Messrs", U"Mlle", U"Mme", U"Mr", U"Mrs", U"Ms", U"Op", U"Ph", U"Prof", U"Rep", U"Reps",
    U"Rev", U"Rt", U"Sen", U"Sens", U"Sgt", U"Sr", U"St",
    // Others
    U"Art", U"BSE", U"Buchst", U"Ca", U"Chr", U"Co", U"Dkr", U"Ltd", U"Mio", U"Mrd", U"MwSt", U"No", U"Nos",
    U"Nr", U"SA", U"Std", U"Zt", U"bzgl", U"bzw", U"ca", U"dergl", U"dgl", U"etc", U"evtl", U"ff", U"ggf",
    U"jun", U"pp", U"sen", U"sog", U"sogen", U"usf", U"usw", U"vgl", U"vs", U"zzt"};

constexpr std::u32string_view kFrench[] = {
    U"MM",   U"SS", U"al",  U"art", U"av", U"ca",  U"cf",   U"dir",  U"env", U"etc",   U"ex",  U"fig", U"hab",
    U"ibid", U"id", U"inf", U"pl",  U"pp", U"sec", U"sect", U"suiv", U"sup", U"suppl", U"tél", U"vol", U"vs"};

constexpr std::u32string_view kCzech[] = {
    // Titles
    U"Dr", U"Ing", U"MUDr", U"Mgr", U"doc", U"dr", U"prof",
    // Others
    U"apod", U"atd", U"atp", U"aut", U"cca", U"hod", U"kol", U"les", U"mil", U"mld", U"min", U"např", U"nám",
    U"ne", U"něm", U"p", U"pl", U"r", U"resp", U"s", U"st", U"str", U"sv", U"tis", U"tj", U"tzv", U"vs",
    U"č"};

Prefixes prefixes_of(MosesLanguage language) {
  switch (language) {
    case MosesLanguage::kEnglish:
      return {kEnglish, kEnglishNumbers};
    case MosesLanguage::kGerman:
      return {kGerman, {}};
    case MosesLanguage::kFrench:
      return {kFrench, {}};
    case MosesLanguage::kCzech:
      return {kCzech, {}};
  }
  return {};
}

bool is_letter_of_initial(std::u32string_view word, MosesLanguage language) {
  if (word.size() != 1) return false;
  if (word[0] >= U'A' && word[0] <= U'Z') return true;
  return language != MosesLanguage::kEnglish && language != MosesLanguage::kCzech && word[0] >= U'a' &&
         word[0] <= U'z';
}

/// "3." is "3rd" in German, up to 99.
bool is_ordinal(std::u32string_view word, MosesLanguage language) {
  const bool digits =
      std::all_of(word.begin(), word.end(), [](char32_t c) { return c >= U'0' && c <= U'9'; });
  return language == MosesLanguage::kGerman && digits && word.size() <= 2 && !word.empty() && word[0] != U'0';
}

PeriodRule moses_period_rule(std::u32string_view word, MosesLanguage language) {
  const Prefixes prefixes = prefixes_of(language);
  const auto has = [word](PrefixWords words) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  if (is_letter_of_initial(word, language) || is_ordinal(word, language) || has(prefixes.always))
    return PeriodRule::kAlways;
  return has(prefixes.before_numbers) ? PeriodRule::kBeforeNumbers : PeriodRule::kNever;
}

using Text = std::u32string;

/// Represents a run of n periods, as kDots + n, while single periods are processed; above all characters.
constexpr char32_t kDots = 0x110000;

bool is_letter(char32_t c) {
  return c < kDots && unicode::is_alphabetic(c);
}
bool is_moses_number(char32_t c) {
  return c < kDots && unicode::is_number(c);
}
bool is_white_space(char32_t c) {
  return unicode::is_space(c) && !(c >= 0x1C && c <= 0x1F);
}

/// White space as one space, none at the ends; no control characters.
Text clean(std::string_view line) {
  Text text;
  for (const char32_t c : unicode::decode(line)) {
    if (is_white_space(c)) {
      if (!text.empty() && text.back() != U' ') text.push_back(U' ');
    } else if (c >= 0x20) {
      text.push_back(c);
    }
  }
  while (!text.empty() && text.back() == U' ') text.pop_back();
  return text;
}

/// Separates runs of two or more periods by spaces, without splitting them.
Text join_dots(const Text& text) {
  Text result;
  for (size_t i = 0; i < text.size();) {
    const size_t end = std::min(text.find_first_not_of(U'.', i), text.size());
    if (end - i < 2) {
      result.push_back(text[i++]);
      continue;
    }
    result.append({U' ', kDots + static_cast<char32_t>(end - i)});
    if (end < text.size()) result.push_back(U' ');
    i = end;
  }
  return result;
}

Text separate_commas(const Text& text) {
  const auto comma = [](char32_t c) { return c == U','; };
  const auto no_number = [](char32_t c) { return !is_moses_number(c); };
  Text result = separate_pairs(text, no_number, comma, U"", U" ", U" ");
  result = separate_pairs(result, comma, no_number, U" ", U" ", U"");
  if (result.size() >= 2 && result.back() == U',' && is_moses_number(result[result.size() - 2]))
    result.insert(result.size() - 1, U" ");
  return result;
}

/// Replaces an apostrophe between members of two classes; the three characters of a match are consumed once.
template <typename First, typename Second>
Text replace_apostrophe(const Text& text, First&& first, Second&& second, std::u32string_view by) {
  Text result;
  size_t i = 0;
  for (; i + 2 < text.size(); ++i) {
    result.push_back(text[i]);
    if (text[i + 1] != U'\'' || !first(text[i]) || !second(text[i + 2])) continue;
    result.append(by);
    result.push_back(text[i + 2]);
    i += 2;
  }
  return result.append(text, std::min(i, text.size()));
}

Text separate_apostrophes(Text text, MosesLanguage language) {
  const auto letter = is_letter;
  const auto no_letter = [](char32_t c) { return !is_letter(c); };
  const auto neither = [](char32_t c) { return !is_letter(c) && !is_moses_number(c); };
  constexpr std::u32string_view kAlone = U" ' ";
  switch (language) {
    case MosesLanguage::kEnglish:  // it 's
      text = replace_apostrophe(text, no_letter, no_letter, kAlone);
      text = replace_apostrophe(text, neither, letter, kAlone);
      text = replace_apostrophe(text, letter, no_letter, kAlone);
      text = replace_apostrophe(text, letter, letter, U" '");
      return replace_apostrophe(
          text, is_moses_number, [](char32_t c) { return c == U's'; }, U" '");
    case MosesLanguage::kFrench:  // l' air
      text = replace_apostrophe(text, no_letter, no_letter, kAlone);
      text = replace_apostrophe(text, no_letter, letter, kAlone);
      text = replace_apostrophe(text, letter, no_letter, kAlone);
      return replace_apostrophe(text, letter, letter, U"' ");
    case MosesLanguage::kGerman:
    case MosesLanguage::kCzech:
      break;
  }
  return separate_single(text, [](char32_t c) { return c == U'\''; });
}

/// Words between spaces; empty ones between two spaces, but none at the end.
std::vector<Text> split(const Text& text) {
  std::vector<Text> words(1);
  for (const char32_t c : text) {
    if (c == U' ') {
      words.emplace_back();
    } else {
      words.back().push_back(c);
    }
  }
  while (!words.empty() && words.back().empty()) words.pop_back();
  return words;
}

/// Whether the period at the end of words[i] stays there.
bool keeps_period(const std::vector<Text>& words, size_t i, MosesLanguage language) {
  const std::u32string_view stem(words[i].data(), words[i].size() - 1);
  if (stem.find(U'.') != Text::npos && std::any_of(stem.begin(), stem.end(), is_letter)) return true;
  const PeriodRule rule = moses_period_rule(stem, language);
  if (rule == PeriodRule::kAlways) return true;
  if (i + 1 == words.size() || words[i + 1].empty()) return false;
  const char32_t next = words[i + 1][0];
  return (next < kDots && unicode::is_lowercase(next)) ||
         (rule == PeriodRule::kBeforeNumbers && next >= U'0' && next <= U'9');
}

Text separate_periods(const Text& text, MosesLanguage language) {
  const std::vector<Text> words = split(text);
  Text result;
  for (size_t i = 0; i < words.size(); ++i) {
    const Text& word = words[i];
    if (word.empty()) continue;
    if (!result.empty()) result.push_back(U' ');
    result.append(word);
    if (word.size() > 1 && word.back() == U'.' && !keeps_period(words, i, language))
      result.insert(result.size() - 1, U" ");
  }
  // A quotation that ends a sentence.
  if (result.ends_with(U".'")) result.replace(result.size() - 2, 2, U" . ' ");
  return result;
}

std::string restored(const Text& text) {
  Text dots;
  for (const char32_t c : text) {
    if (c > kDots) {
      dots.append(c - kDots, U'.');
    } else {
      dots.push_back(c);
    }
  }
  return unicode::encode(dots);
}

}  // namespace

const char* name_of(MosesLanguage language) {
  switch (language) {
    case MosesLanguage::kEnglish:
      return "en";
    case MosesLanguage::kGerman:
      return "de";
    case MosesLanguage::kFrench:
      return "fr";
    case MosesLanguage::kCzech:
      return "cs";
  }
  return "";
}

std::string moses_tokenize(std::string_view line, MosesLanguage language) {
  Text text = separate_single(clean(line), [](char32_t c) {
    return !is_letter(c) && !unicode::is_decimal_digit(c) &&
           std::u32string_view(U" .'`,-").find(c) == Text::npos;
  });
  text = separate_commas(join_dots(text));
  text = separate_apostrophes(std::move(text), language);
  return restored(separate_periods(text, language));
}

std::string moses_replace_unicode_punctuation(std::string_view line) {
  constexpr std::pair<const char*, const char*> kReplacements[] = {
      {"，", ","},  {"、", ","},  {"”", "\""}, {"“", "\""}, {"∶", ":"},  {"：", ":"}, {"？", "?"},
      {"《", "\""}, {"》", "\""}, {"）", ")"}, {"！", "!"}, {"（", "("}, {"；", ";"}, {"１", "\""},
      {"」", "\""}, {"「", "\""}, {"０", "0"}, {"３", "3"}, {"２", "2"}, {"５", "5"}, {"６", "6"},
      {"９", "9"},  {"７", "7"},  {"８", "8"}, {"４", "4"}, {"～", "~"}, {"’", "'"},  {"…", "..."},
      {"━", "-"},   {"〈", "<"},  {"〉", ">"}, {"【", "["}, {"】", "]"}, {"％", "%"}};
  std::string text(line);
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
    return text;
  for (const char* const stop : {"。", "．"}) {
    for (size_t at = text.find(stop); at != std::string::npos; at = text.find(stop, at + 2)) {
      const size_t end = std::min(text.find_first_not_of(' ', at + 3), text.size());
      text.replace(at, end - at, ". ");
    }
  }
  for (const auto& [from, to] : kReplacements) replace_all<std::string>(text, from, to);
  return text;
}

std::string split_compounds(std::string_view tokenized) {
  const Text text = unicode::decode(tokenized);
  const auto part = [](char32_t c) { return !is_white_space(c); };
  Text result;
  size_t i = 0;
  for (; i + 2 < text.size(); ++i) {
    result.push_back(text[i]);
    if (text[i + 1] != U'-' || !part(text[i]) || !part(text[i + 2])) continue;
    result.append(U" ##AT##-##AT## ");
    result.push_back(text[i + 2]);
    i += 2;
  }
  return unicode::encode(result.append(text, std::min(i, text.size())));
}

}  // namespace ventris::data
