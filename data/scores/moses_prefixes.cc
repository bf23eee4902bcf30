// SPDX-License-Identifier: Apache-2.0
#include "data/scores/moses_prefixes.h"

#include <algorithm>
#include <array>
#include <span>

namespace ventris::data {
namespace {

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

}  // namespace

PeriodRule moses_period_rule(std::u32string_view word, MosesLanguage language) {
  const Prefixes prefixes = prefixes_of(language);
  const auto has = [word](PrefixWords words) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  if (is_letter_of_initial(word, language) || is_ordinal(word, language) || has(prefixes.always))
    return PeriodRule::kAlways;
  return has(prefixes.before_numbers) ? PeriodRule::kBeforeNumbers : PeriodRule::kNever;
}

}  // namespace ventris::data
