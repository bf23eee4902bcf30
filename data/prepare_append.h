// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "data/corpus.h"
#include "data/files/file_io.h"
#include "data/pair_keys.h"
#include "data/prepare.h"

// Private to data/.

namespace ventris::data {

class CorpusWriter;

/// The corpus file of `prepare --append`: its parts and validation pairs become those of the new file.
class AppendedCorpus {
 public:
  /// Throws DataError kUsage for options that contradict the file: a name of one of its parts, validation
  /// pairs if it has some, keep_text if it has no text, another tokenizer. If the output is the file itself,
  /// kUnavailable while another process appends to it.
  explicit AppendedCorpus(const PrepareOptions& options);

  const Corpus& corpus() const { return corpus_; }
  /// Throws DataError kUnavailable if the path has another file by now.
  void check_still_there() const;
  /// Each with its name and its record, then the validation pairs.
  void write_parts(CorpusWriter& writer) const;
  void write_valid(CorpusWriter& writer) const;
  /// Adds the keys of the target lines of its validation pairs; it has no others.
  void add_valid_lines(KeySet& keys, Likeness likeness) const;

 private:
  FileHandle file_;  // locked while it will be replaced
  Corpus corpus_;
};

}  // namespace ventris::data
