#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/files/file_io.h"
#include "data/text/text_reader.h"

// Private to data/: parallel text files.

namespace ventris::data {

/// Statistics of one input file.
struct InputFile {
  std::string path;
  int64_t lines = 0;
  std::string digest;  // XXH3-128 of its lines, each ended by LF
};

/// Reads sentence pairs of lists of files in order. Errors: those of TextReader; DataError kBadData if two
/// files differ in their number of lines (naming both numbers) or have none.
class PairReader {
 public:
  /// Throws if any file cannot be opened.
  PairReader(const std::vector<std::string>& source, const std::vector<std::string>& target);

  /// Advances to the next pair of files (initially the first one); false if there are no more.
  bool next_files();
  /// False at the end of the pair of files.
  bool next(std::string& source, std::string& target);
  /// Index of the pair of files, and lines read of each.
  size_t file() const { return file_; }
  int64_t line_number() const { return lines_; }
  /// The files read to their end, source and target alternating.
  const std::vector<InputFile>& finished() const { return finished_; }

 private:
  void finish_files();

  std::vector<std::string> source_paths_;
  std::vector<std::string> target_paths_;
  size_t next_file_ = 0;
  size_t file_ = 0;
  int64_t lines_ = 0;
  std::unique_ptr<TextReader> source_;
  std::unique_ptr<TextReader> target_;
  std::unique_ptr<Digest> source_digest_;
  std::unique_ptr<Digest> target_digest_;
  std::vector<InputFile> finished_;
};

}  // namespace ventris::data
