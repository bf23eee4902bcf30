#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/corpus.h"

// Private to data/: names and numbers of the layout of a corpus file.

namespace ventris::data {

// That are written: one vocabulary for both sides; one for each, which no earlier version has.
inline constexpr int64_t kOneVocabularyVersion = 2;
inline constexpr int64_t kTwoVocabulariesVersion = 3;
/// Ids of vocabularies of at most this size are stored in 2 bytes.
inline constexpr int64_t kTwoByteVocabulary = 65536;

// Attributes of "/": the corpora of the training pairs, and the validation pairs, as JSON.
inline constexpr char kPartsAttribute[] = "parts";
inline constexpr char kValidAttribute[] = "valid";

std::string parts_json(const std::vector<CorpusPart>& parts);
std::string part_json(const CorpusPart& part);
/// The inverse. Throws DataError kBadData, naming `path`, for text that is not of this form, numbers below 0
/// or with too large sums, a sentence longer than its part, and parts that do not follow each other, the
/// first of them from pair 0 on.
std::vector<CorpusPart> parts_of_json(const std::string& json, const std::string& path);
CorpusPart part_of_json(const std::string& json, const std::string& path);

}  // namespace ventris::data
