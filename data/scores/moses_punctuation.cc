// SPDX-License-Identifier: Apache-2.0
#include "data/scores/moses_punctuation.h"

#include <algorithm>
#include <utility>

#include "data/scores/score_text.h"

namespace ventris::data {
namespace {

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

void single_spaces(std::string& text) {
  text.erase(std::unique(text.begin(), text.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
             text.end());
}

/// Replaces `between` if preceded and followed by a character of a class; the match includes all of them.
template <typename Class>
void replace_between(std::string& text, std::string_view between, Class&& member, std::string_view by) {
  for (size_t at = text.find(between, 1); at != std::string::npos; at = text.find(between, at)) {
    const size_t after = at + between.size();
    if (after >= text.size()) return;
    if (!member(text[at - 1]) || !member(text[after])) {
      ++at;
      continue;
    }
    text.replace(at, between.size(), by);
    at += by.size() + 2;  // the following character is consumed; another match needs one before it
    if (at > text.size()) return;
  }
}

/// Brackets with a space outside, and none inside or before following punctuation.
void set_brackets(std::string& text) {
  replace_all(text, "(", " (");
  replace_all(text, ")", ") ");
  single_spaces(text);
  for (const char* mark : {".", "!", ":", "?", ";", ","})
    replace_all(text, std::string(") ") + mark, std::string(")") + mark);
  replace_all(text, "( ", "(");
  replace_all(text, " )", ")");
  for (size_t at = text.find(" %"); at != std::string::npos; at = text.find(" %", at + 1)) {
    if (at > 0 && is_ascii_digit(text[at - 1])) text.erase(at, 1);
  }
  replace_all(text, " :", ":");
  replace_all(text, " ;", ";");
}

void set_quotes(std::string& text) {
  replace_all(text, "`", "'");
  replace_all(text, "''", " \" ");
  for (const char* quote : {"„", "“", "”"}) replace_all(text, quote, "\"");
  replace_all(text, "–", "-");
  replace_all(text, "—", " - ");
  single_spaces(text);
  replace_all(text, "´", "'");
  replace_between(text, "‘", is_ascii_letter, "'");
  replace_between(text, "’", is_ascii_letter, "'");
  for (const char* quote : {"‘", "‚", "’", "''"}) replace_all(text, quote, "\"");
  replace_all(text, "…", "...");
  replace_all(text, " « ", " \"");
  replace_all(text, "« ", "\"");
  replace_all(text, "«", "\"");
  replace_all(text, " » ", "\" ");
  replace_all(text, " »", "\"");
  replace_all(text, "»", "\"");
}

/// No-break spaces.
void set_spaces(std::string& text) {
  constexpr std::pair<const char*, const char*> kReplacements[] = {
      {"\u00a0%", "%"}, {"nº\u00a0", "nº "}, {"\u00a0:", ":"}, {"\u00a0ºC", " ºC"}, {"\u00a0cm", " cm"},
      {"\u00a0?", "?"}, {"\u00a0!", "!"},    {"\u00a0;", ";"}, {",\u00a0", ", "}};
  for (const auto& [from, to] : kReplacements) replace_all(text, from, to);
  single_spaces(text);
}

/// Periods and commas after a quotation mark before it, as in American English.
void quotes_after_marks(std::string& text) {
  for (size_t at = text.find('"'); at != std::string::npos; at = text.find('"', at + 1)) {
    const size_t end = std::min(text.find_first_not_of(",.", at + 1), text.size());
    if (end == at + 1) continue;
    text.erase(at, 1);
    text.insert(end - 1, 1, '"');
    at = end - 1;
  }
}

/// Commas and periods before a quotation mark after it, unless < follows.
void quotes_before_marks(std::string& text) {
  replace_all(text, ",\"", "\",");
  for (size_t at = text.find(".\""); at != std::string::npos; at = text.find(".\"", at + 1)) {
    if (text.compare(at + 2, 1, "<") == 0) continue;
    size_t begin = at;
    while (begin > 0 && text[begin - 1] == '.') --begin;
    text.erase(at + 1, 1);
    text.insert(begin, 1, '"');
    ++at;  // the character that follows belongs to this match
  }
}

}  // namespace

std::string moses_normalize_punctuation(std::string_view line, MosesLanguage language) {
  std::string text(line);
  std::erase(text, '\r');
  set_brackets(text);
  set_quotes(text);
  set_spaces(text);
  if (language == MosesLanguage::kEnglish) quotes_after_marks(text);
  if (language == MosesLanguage::kGerman || language == MosesLanguage::kFrench) quotes_before_marks(text);
  replace_between(text, "\u00a0", is_ascii_digit, language == MosesLanguage::kEnglish ? "." : ",");
  return text;
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
  for (const auto& [from, to] : kReplacements) replace_all(text, from, to);
  return text;
}

}  // namespace ventris::data
