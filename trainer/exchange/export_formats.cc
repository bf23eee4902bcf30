// SPDX-License-Identifier: Apache-2.0
#include "trainer/exchange/export_formats.h"

#include <filesystem>

#include "data/io/atomic_file.h"

namespace ventris {

std::string write_in_folder(const std::string& folder, const std::string& name, const std::string& content) {
  const std::string path = (std::filesystem::path(folder) / name).string();
  data::write_file_atomically(path, content);
  return path;
}

std::vector<std::string> pieces_of(const data::Tokenizer& tokenizer) {
  std::vector<std::string> pieces;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) pieces.push_back(tokenizer.piece(id));
  return pieces;
}

}  // namespace ventris
