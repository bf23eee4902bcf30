// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

// Private to data/.

namespace ventris::data {

/// The bytes of a SentencePiece model of words for a list of them: one a line in UTF-8, each followed by
/// white space and a count or by nothing, as in fairseq's dict.txt. Its ids: unknown 0, begin 1, end 2, then
/// the words in the order of the list, without the marks <unk>, <s>, </s> and <pad>, which lists of other
/// programs have. The text is not normalised; words are what spaces separate. Throws DataError kBadData with
/// `origin` and line for text that is no such list.
std::string model_of_words(std::string_view list, const std::string& origin);

}  // namespace ventris::data
