// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/io/digest.h"
#include "data/text/text_reader.h"

namespace ventris::data {

/// Two files of which line i of one translates line i of the other; or, without `target`, one file of two
/// columns, source TAB target.
struct PairFiles {
  std::string source;
  std::string target;
};

/// Statistics of one input file.
struct InputFile {
  std::string path;
  int64_t lines = 0;
  std::string digest;  // XXH3-128 of its lines, each ended by LF
};

/// A pair as it is in the files.
struct RawPair {
  std::string source;
  std::string target;
  float weight = 1.0F;
};

/// Reads sentence pairs of a list of files in order. Errors: those of TextReader; DataError kBadData if files
/// differ in their number of lines (naming both numbers) or have none, for a line without two columns of a
/// file of columns, and for a weight that is not a finite number of at least 0.
class PairReader {
 public:
  /// `weights`: a file with a number for each pair, or "". Throws if any file cannot be opened.
  PairReader(const std::vector<PairFiles>& files, const std::string& weights);

  /// Advances to the next pair of files (initially the first one); false if there are no more.
  bool next_files();
  /// False at the end of the pair of files.
  bool next(RawPair& pair);
  /// Index of the pair of files, and lines read of each.
  size_t file() const { return file_; }
  int64_t line_number() const { return lines_; }
  int64_t pairs() const { return pairs_; }  // read of all files
  int64_t bytes_read() const;
  /// The files read to their end: source and target alternating, at the end the weights.
  const std::vector<InputFile>& finished() const { return finished_; }

 private:
  /// A file that is being read, with its statistics.
  struct Input {
    TextReader reader;
    Digest digest;
    std::string line;

    explicit Input(const std::string& path) : reader(path) {}
    bool next();
    InputFile statistics();
  };

  bool next_lines(RawPair& pair);
  bool next_columns(RawPair& pair);
  void read_weight(RawPair& pair);
  void finish_files();

  std::vector<PairFiles> files_;
  size_t next_file_ = 0;
  size_t file_ = 0;
  int64_t lines_ = 0;
  int64_t pairs_ = 0;
  int64_t finished_bytes_ = 0;
  std::unique_ptr<Input> source_;
  std::unique_ptr<Input> target_;
  std::unique_ptr<Input> weights_;
  std::vector<InputFile> finished_;
};

}  // namespace ventris::data
