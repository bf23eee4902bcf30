#include "data/pair_reader.h"

#include "data/error.h"

namespace ventris::data {

namespace {

void check_readable(const std::string& path) {
  if (path != "-") {
    const TextReader reader(path);
  }
}

int64_t count_rest(TextReader& reader) {
  std::string line;
  while (reader.next(line)) {
  }
  return reader.line_number();
}

}  // namespace

PairReader::PairReader(const std::vector<std::string>& source, const std::vector<std::string>& target)
    : source_paths_(source), target_paths_(target) {
  for (size_t i = 0; i < source.size(); ++i) {
    check_readable(source[i]);
    check_readable(target[i]);
  }
}

bool PairReader::next_files() {
  if (next_file_ == source_paths_.size()) {
    return false;
  }
  file_ = next_file_++;
  lines_ = 0;
  source_ = std::make_unique<TextReader>(source_paths_[file_]);
  target_ = std::make_unique<TextReader>(target_paths_[file_]);
  source_digest_ = std::make_unique<Digest>();
  target_digest_ = std::make_unique<Digest>();
  return true;
}

bool PairReader::next(std::string& source, std::string& target) {
  if (!source_) {
    return false;
  }
  const bool has_source = source_->next(source);
  const bool has_target = target_->next(target);
  if (has_source && has_target) {
    ++lines_;
    source_digest_->add(source.data(), source.size());
    source_digest_->add("\n", 1);
    target_digest_->add(target.data(), target.size());
    target_digest_->add("\n", 1);
    return true;
  }
  if (has_source != has_target) {
    const int64_t source_lines = count_rest(*source_);
    const int64_t target_lines = count_rest(*target_);
    fail(ErrorKind::kBadData,
         "{} has {} lines, but {} has {}: line i of each must be translations of each other", source_->path(),
         source_lines, target_->path(), target_lines);
  }
  finish_files();
  return false;
}

void PairReader::finish_files() {
  if (lines_ == 0) {
    fail(ErrorKind::kBadData, "{} and {} are empty: there are no sentence pairs", source_->path(),
         target_->path());
  }
  finished_.push_back({source_->path(), lines_, source_digest_->hexadecimal()});
  finished_.push_back({target_->path(), lines_, target_digest_->hexadecimal()});
  source_.reset();
  target_.reset();
}

}  // namespace ventris::data
