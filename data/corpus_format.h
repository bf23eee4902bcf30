#pragma once

#include <cstdint>

// Private to data/: names and numbers of the layout of a corpus file.

namespace ventris::data {

inline constexpr char kCorpusFormat[] = "ventris-corpus";
inline constexpr int64_t kCorpusFormatVersion = 1;

}  // namespace ventris::data
