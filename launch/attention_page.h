#pragma once

#include <string>
#include <vector>

#include "model/attention_maps.h"

namespace ventris {

/// The contents of a page of heat maps.
struct AttentionPage {
  std::string model;                       // name of the file
  std::string source;                      // text
  std::string target;                      // text
  bool translated = false;                 // the target is the model's own translation
  std::vector<std::string> source_tokens;  // pieces of the vocabulary with the end mark: n + 1
  std::vector<std::string> target_tokens;  // with the begin mark and the end mark: m + 2
  int heads = 0;
  AttentionMapper::AllMaps maps;
};

/// One self-contained HTML file, without libraries or network access. Text is shown literally, never
/// interpreted as markup.
std::string attention_page(const AttentionPage& page);

}  // namespace ventris
