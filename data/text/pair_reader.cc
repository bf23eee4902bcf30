// SPDX-License-Identifier: Apache-2.0
#include "data/text/pair_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>

#include "data/error.h"

namespace ventris::data {

namespace {

int64_t count_rest(TextReader& reader) {
  std::string line;
  while (reader.next(line)) {
  }
  return reader.line_number();
}

float parse_weight(std::string_view text, const std::string& path, int64_t line) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  text.remove_prefix(begin);
  text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
  float weight = 0.0F;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(weight) || weight < 0.0F) {
    fail(ErrorKind::kBadData,
         "{}:{}: the weight of the pair is '{}'; expected a finite number of at least 0, such as 0.5", path,
         line, text.substr(0, 40));
  }
  return weight;
}

}  // namespace

bool PairReader::Input::next() {
  if (!reader.next(line)) return false;
  if (reader.line_number() == 1 && reader.had_mark())
    digest.add(kByteOrderMark.data(), kByteOrderMark.size());
  digest.add(line.data(), line.size());
  digest.add("\n", 1);
  return true;
}

InputFile PairReader::Input::statistics() {
  return {reader.path(), reader.line_number(), digest.hexadecimal()};
}

PairReader::PairReader(const std::vector<PairFiles>& files, const std::string& weights) : files_(files) {
  for (const PairFiles& pair : files) {
    const Input source(pair.source);
    if (!pair.target.empty()) const Input target(pair.target);
  }
  if (!weights.empty()) weights_ = std::make_unique<Input>(weights);
}

bool PairReader::next_files() {
  if (next_file_ == files_.size()) {
    if (weights_ != nullptr && source_ == nullptr) {
      if (weights_->next()) {
        fail(ErrorKind::kBadData, "{} has {} lines, but the corpus has {} pairs: expected a number for each",
             weights_->reader.path(), count_rest(weights_->reader), pairs_);
      }
      finished_.push_back(weights_->statistics());
      finished_bytes_ += weights_->reader.bytes_read();
      weights_.reset();
    }
    return false;
  }
  file_ = next_file_++;
  lines_ = 0;
  source_ = std::make_unique<Input>(files_[file_].source);
  if (!files_[file_].target.empty()) target_ = std::make_unique<Input>(files_[file_].target);
  return true;
}

bool PairReader::next(RawPair& pair) {
  if (!source_) return false;
  if (files_[file_].target.empty() ? next_columns(pair) : next_lines(pair)) {
    ++lines_;
    ++pairs_;
    if (weights_ != nullptr) read_weight(pair);
    return true;
  }
  finish_files();
  return false;
}

bool PairReader::next_lines(RawPair& pair) {
  const bool has_source = source_->next();
  const bool has_target = target_->next();
  if (has_source != has_target) {
    const int64_t source_lines = count_rest(source_->reader);
    const int64_t target_lines = count_rest(target_->reader);
    fail(ErrorKind::kBadData,
         "{} has {} lines, but {} has {}: line i of each must be translations of each other",
         source_->reader.path(), source_lines, target_->reader.path(), target_lines);
  }
  pair.source = source_->line;
  pair.target = target_->line;
  return has_source;
}

bool PairReader::next_columns(RawPair& pair) {
  if (!source_->next()) return false;
  const std::string_view line = source_->line;
  const size_t tab = line.find('\t');
  if (tab == std::string_view::npos || line.find('\t', tab + 1) != std::string_view::npos) {
    fail(ErrorKind::kBadData, "{}:{}: the line has {} columns; expected 2: source TAB target",
         source_->reader.path(), lines_ + 1, 1 + std::ranges::count(line, '\t'));
  }
  pair.source = line.substr(0, tab);
  pair.target = line.substr(tab + 1);
  return true;
}

void PairReader::read_weight(RawPair& pair) {
  if (!weights_->next()) {
    fail(ErrorKind::kBadData, "{} has {} lines, but the corpus has more pairs: expected a number for each",
         weights_->reader.path(), weights_->reader.line_number());
  }
  pair.weight = parse_weight(weights_->line, weights_->reader.path(), weights_->reader.line_number());
}

void PairReader::finish_files() {
  if (lines_ == 0) {
    if (target_ == nullptr) {
      fail(ErrorKind::kBadData, "{} is empty: there are no sentence pairs", source_->reader.path());
    }
    fail(ErrorKind::kBadData, "{} and {} are empty: there are no sentence pairs", source_->reader.path(),
         target_->reader.path());
  }
  for (std::unique_ptr<Input>* input : {&source_, &target_}) {
    if (*input == nullptr) continue;
    finished_.push_back((*input)->statistics());
    finished_bytes_ += (*input)->reader.bytes_read();
    input->reset();
  }
}

int64_t PairReader::bytes_read() const {
  int64_t bytes = finished_bytes_;
  for (const Input* input : {source_.get(), target_.get(), weights_.get()}) {
    if (input != nullptr) bytes += input->reader.bytes_read();
  }
  return bytes;
}

}  // namespace ventris::data
