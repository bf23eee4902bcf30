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
/// Inverse of parts_json() and part_json(), for the value of `attribute`; returns at least one part. The
/// parts of kPartsAttribute follow each other from pair 0 on. Otherwise each part is a set that begins at
/// pair 0, and its name is unique and valid for a group. Throws DataError kBadData, naming `path`, for text
/// that is not of this form, numbers below 0 or with too large sums, and a sentence longer than its part.
std::vector<CorpusPart> parts_of_json(const std::string& json, const std::string& attribute,
                                      const std::string& path);

}  // namespace ventris::data
