// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/corpus.h"

// Private to data/: names and numbers of the layout of a corpus file.

namespace ventris::data {

// Versions: one vocabulary for both sides; one for each.
inline constexpr int64_t kOneVocabularyVersion = 2;
inline constexpr int64_t kTwoVocabulariesVersion = 3;
/// Ids of vocabularies of at most this size are stored in 2 bytes.
inline constexpr int64_t kTwoByteVocabulary = 65536;

// Attributes of "/": the corpora of the training pairs, and the validation pairs, as JSON.
inline constexpr char kPartsAttribute[] = "parts";
inline constexpr char kValidAttribute[] = "valid";
// The same of further sets of validation pairs, a list; there only if there are some.
inline constexpr char kMoreValidAttribute[] = "more_valid";

// The groups of these sets.
inline constexpr char kValidGroup[] = "/valid";
std::string more_valid_group(const std::string& name);

std::string parts_json(const std::vector<CorpusPart>& parts);
std::string part_json(const CorpusPart& part);
/// The inverse. Throws DataError kBadData, naming `path`, for text that is not of this form, numbers below 0
/// or with too large sums, a sentence longer than its part, and parts that do not follow each other, the
/// first of them from pair 0 on.
std::vector<CorpusPart> parts_of_json(const std::string& json, const std::string& path);
CorpusPart part_of_json(const std::string& json, const std::string& path);
/// Of parts each of which begins at pair 0, with different names that a group may have. Throws likewise.
std::vector<CorpusPart> separate_parts_of_json(const std::string& json, const std::string& path);

}  // namespace ventris::data
