// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/scores/moses_tokenize.h"
#include "data/scores/ngram_matches.h"

namespace ventris::data {

enum class BleuTokenizer { k13a, kNone, kChar, kInternational, kChinese };
enum class BleuSmoothing { kExp, kFloor, kAddK, kNone };

constexpr int kMaxBleuOrder = 8;

inline constexpr std::array kBleuTokenizers = {BleuTokenizer::k13a, BleuTokenizer::kNone,
                                               BleuTokenizer::kChar, BleuTokenizer::kInternational,
                                               BleuTokenizer::kChinese};

const char* name_of(BleuTokenizer tokenizer);
std::optional<BleuTokenizer> bleu_tokenizer_named(std::string_view name);
const char* name_of(BleuSmoothing smoothing);

struct BleuOptions {
  BleuTokenizer tokenizer = BleuTokenizer::k13a;
  BleuSmoothing smoothing = BleuSmoothing::kExp;
  double smoothing_value = -1.0;  // of floor (default 0.1) and add-k (default 1)
  bool lowercase = false;
  bool effective_order = false;
  int max_ngram_order = 4;  // 1 to kMaxBleuOrder
};

struct BleuScore {
  double score = 0.0;              // 0 to 100
  std::vector<double> precisions;  // percent, one of each order
  double brevity_penalty = 0.0;
  int64_t hypothesis_length = 0;
  int64_t reference_length = 0;
};

/// BLEU (Papineni et al. 2002) as sacreBLEU 2 computes it (Post 2018). Agreement to 1e-9 is tested against
/// release 2.6.0, whose number bleu_signature() gives. Bytes that are not UTF-8, which sacreBLEU refuses,
/// count as characters of no class.

/// Counts n-grams of many sentences, with reused memory.
class BleuCounter {
 public:
  explicit BleuCounter(const BleuOptions& options) : options_(options) {}
  /// A row, of which sums give a score: hypothesis length, reference length, matches of each order, n-grams
  /// of each order. The reference length is the closest; the shorter of two equally close ones. Requires a
  /// reference.
  std::vector<double> count(std::string_view hypothesis, std::span<const std::string_view> references);

 private:
  std::vector<int32_t> symbols_of(std::string_view line);

  BleuOptions options_;
  std::deque<std::u32string> lines_;  // of the sentence, for the views of numbers_
  WordNumbers numbers_;
  NgramMatches matches_;
};

/// The score of a sum of rows.
BleuScore bleu_score(std::span<const double> statistics, const BleuOptions& options);
/// With precisions in single precision, as sacreBLEU computes the scores of resamples.
double bleu_of_resample(std::span<const float> statistics, const BleuOptions& options);

/// "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:..." with the version of sacreBLEU that it agrees
/// with. `trials`, if any, follows nrefs: "bs:1000|seed:12345".
std::string bleu_signature(const BleuOptions& options, int references, const std::string& trials = {});
/// "58.1/32.9/20.9/13.8 (BP = 1.000 ratio = 1.007 hyp_len = 65000 ref_len = 64500)"
std::string bleu_details(const BleuScore& score);

/// The release of sacreBLEU with which the tests compare BLEU and chrF.
inline constexpr const char* kSacrebleuVersion = "2.6.0";

/// The tokenized line, whose words are separated by white space (split_words()): in lower case if requested.
std::u32string bleu_text(std::string_view line, const BleuOptions& options);

/// The words of a line with one space between them, as UTF-8.
std::string bleu_tokenize(std::string_view line, const BleuOptions& options);

// Tokenised BLEU by the protocol of the Transformer paper (Vaswani et al. 2017, section 6.1), as the authors'
// script get_ende_bleu computes it: typographic punctuation in ASCII, the tokenizer of Moses, compounds split
// at hyphens, BLEU of these words without smoothing, with case. Not comparable with sacreBLEU's.

/// How a user asks for a protocol: --protocol and --language.
struct ProtocolOptions {
  bool paper = false;         // otherwise sacreBLEU's
  std::string language = {};  // of the paper's protocol
};

/// The language of the paper's protocol if that is requested; then `bleu` becomes its BLEU. Throws DataError
/// kUsage if the options are inconsistent.
std::optional<MosesLanguage> paper_language(const ProtocolOptions& options, BleuOptions& bleu);

/// The words of a line that the protocol compares, separated by one space.
std::string paper_words(std::string_view line, MosesLanguage language);
void to_paper_words(std::vector<std::string>& lines, MosesLanguage language);

inline constexpr const char* kPaperBleuName = "paper-BLEU";

/// "nrefs:1|case:mixed|punct:ascii|tok:moses-de|compounds:split|smooth:none"; `trials` as for
/// bleu_signature().
std::string paper_signature(MosesLanguage language, int references, const std::string& trials = {});

}  // namespace ventris::data
