#include "trainer/translation.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/error.h"
#include "comm/communicator.h"
#include "trainer/weights.h"

namespace ventris {
namespace {

constexpr int64_t kChunkRows = 1 << 24;  // source rows translated together

using Sentences = std::vector<std::vector<int32_t>>;
using Hypotheses = std::vector<std::vector<Hypothesis>>;

/// Indices of the sentences, longest first, cut into chunks of at most kChunkRows rows (or one sentence). The
/// chunks do not depend on the ranks, so neither do the results.
std::vector<std::vector<size_t>> cut_into_chunks(const Sentences& sources) {
  std::vector<size_t> order(sources.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return sources[a].size() > sources[b].size(); });
  std::vector<std::vector<size_t>> chunks;
  int64_t rows = 0;
  for (const size_t index : order) {
    const int64_t more = static_cast<int64_t>(sources[index].size()) + 1;
    if (chunks.empty() || rows + more > kChunkRows) {
      chunks.emplace_back();
      rows = 0;
    }
    chunks.back().push_back(index);
    rows += more;
  }
  return chunks;
}

class Writer {
 public:
  template <typename T>
  void put(const T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  std::string bytes;
};

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  template <typename T>
  T get() {
    VENTRIS_CHECK(at_ + sizeof(T) <= bytes_.size(), "{} bytes of hypotheses end early", bytes_.size());
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
};

void put(Writer& writer, size_t index, const std::vector<Hypothesis>& hypotheses) {
  writer.put(static_cast<uint64_t>(index));
  writer.put(static_cast<uint32_t>(hypotheses.size()));
  for (const Hypothesis& hypothesis : hypotheses) {
    writer.put(hypothesis.log_probability);
    writer.put(hypothesis.score);
    writer.put(static_cast<uint32_t>(hypothesis.words.size()));
    for (const int32_t word : hypothesis.words) writer.put(word);
  }
}

void take(Reader& reader, Hypotheses& all) {
  const auto index = static_cast<size_t>(reader.get<uint64_t>());
  VENTRIS_CHECK(index < all.size(), "hypotheses of sentence {} of {}", index, all.size());
  std::vector<Hypothesis>& hypotheses = all[index];
  hypotheses.resize(reader.get<uint32_t>());
  for (Hypothesis& hypothesis : hypotheses) {
    hypothesis.log_probability = reader.get<double>();
    hypothesis.score = reader.get<double>();
    hypothesis.words.resize(reader.get<uint32_t>());
    for (int32_t& word : hypothesis.words) word = reader.get<int32_t>();
  }
}

/// The rank of chunk `index`: there and back again (0 1 2 2 1 0 0 1 2 ...), since the chunks' lengths fall.
int rank_of_chunk(size_t index, int ranks) {
  const auto size = static_cast<size_t>(ranks);
  const size_t place = index % (2 * size);
  return static_cast<int>(place < size ? place : 2 * size - 1 - place);
}

}  // namespace

std::vector<std::vector<Hypothesis>> translate_on_all_ranks(
    Communicator& communicator, BeamSearch& search, const std::vector<std::vector<int32_t>>& sources) {
  const std::vector<std::vector<size_t>> chunks = cut_into_chunks(sources);
  Writer mine;
  Sentences chunk_sources;
  for (size_t c = 0; c < chunks.size(); ++c) {
    if (rank_of_chunk(c, communicator.size()) != communicator.rank()) continue;
    chunk_sources.clear();
    for (const size_t index : chunks[c]) chunk_sources.push_back(sources[index]);
    const Hypotheses found = search.translate(chunk_sources);
    for (size_t i = 0; i < found.size(); ++i) put(mine, chunks[c][i], found[i]);
  }
  Hypotheses all(sources.size());
  for (const std::string& bytes : communicator.all_gather(mine.bytes)) {
    for (Reader reader(bytes); !reader.at_end();) take(reader, all);
  }
  return all;
}

std::vector<std::vector<Translation>> translate_text(Context& context, Communicator& communicator,
                                                     LoadedModel& model,
                                                     const std::vector<std::string>& lines,
                                                     const BeamSearchOptions& options, int64_t* cut) {
  const auto longest = static_cast<size_t>(model.config.max_positions - 1);
  const data::Tokenizer& tokenizer = *model.tokenizer;
  Sentences sources(lines.size());
  int64_t sentences_cut = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    tokenizer.encode(lines[i], sources[i]);
    if (sources[i].size() <= longest) continue;
    sources[i].resize(longest);
    ++sentences_cut;
  }
  if (cut != nullptr) *cut = sentences_cut;

  BeamSearchOptions search_options = options;
  search_options.begin_id = tokenizer.begin_id();
  search_options.end_id = tokenizer.end_id();
  search_options.unknown_id = tokenizer.unknown_id();
  BeamSearch search(context, model.config, model.store, model.ids, search_options);
  const Hypotheses hypotheses = translate_on_all_ranks(communicator, search, sources);

  std::vector<std::vector<Translation>> translations(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const Hypothesis& hypothesis : hypotheses[i]) {
      translations[i].push_back({.text = tokenizer.decode(hypothesis.words),
                                 .score = hypothesis.score,
                                 .log_probability = hypothesis.log_probability,
                                 .words = static_cast<int64_t>(hypothesis.words.size())});
    }
  }
  return translations;
}

}  // namespace ventris
