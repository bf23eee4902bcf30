// SPDX-License-Identifier: Apache-2.0
#include "data/text/tokenizer.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sentencepiece_processor.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "data/error.h"
#include "data/io/atomic_file.h"
#include "data/io/file_io.h"
#include "data/text/sentencepiece_format.h"

namespace ventris::data {

struct Tokenizer::Impl {
  std::string model;
  std::string origin;
  sentencepiece::SentencePieceProcessor processor;
  bool has_words = false;  // a model of words

  sentencepiece::ImmutableSentencePieceText encode(std::string_view text) const {
    sentencepiece::ImmutableSentencePieceText pieces;
    const auto status = processor.Encode(text, pieces.mutable_proto());
    if (!status.ok()) {
      fail(ErrorKind::kBadData, "{}: the tokenizer cannot encode a line of {} bytes: {}", origin, text.size(),
           status.error_message());
    }
    return pieces;
  }
};

namespace {

/// The words of a run of unknown words, which SentencePiece gives as one piece: each but perhaps the first
/// begins with the mark of a space.
std::vector<std::string> words_of_run(const std::string& run) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < run.size();) {
    const size_t end = std::min(run.find(kSpaceMark, begin + 1), run.size());
    words.push_back(run.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

}  // namespace

Tokenizer::Tokenizer(std::string model, const std::string& origin) : impl_(std::make_unique<Impl>()) {
  impl_->model = std::move(model);
  impl_->origin = origin;
  check_sentencepiece_model(impl_->model, origin);
  const auto refuse = [&](const char* reason) {
    fail(ErrorKind::kBadData, "{}: the tokenizer is not a SentencePiece model ({})", origin, reason);
  };
  impl_->has_words = SentencePieceModel(impl_->model).kind == kModelWord;
  try {
    const auto status = impl_->processor.LoadFromSerializedProto(impl_->model);
    if (!status.ok()) refuse(status.error_message());
  } catch (const DataError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // of the library's search tree
    refuse(error.what());
  }
  const auto require = [&](int id, const char* mark) {
    if (id < 0) {
      fail(ErrorKind::kBadData,
           "{}: the SentencePiece model has no {}; "
           "train it with --unk_id=0 --bos_id=1 --eos_id=2, or give none",
           origin, mark);
    }
  };
  require(unknown_id(), "mark for unknown tokens");
  require(end_id(), "end mark");
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

namespace {

std::string read_model_file(const std::string& path) {
  const FileHandle file = open_to_read(path);
  struct stat status {};
  if (!file.valid() || ::fstat(file.fd(), &status) != 0) {
    fail(ErrorKind::kMissingInput, "{}: cannot open the tokenizer model: {}", path, system_reason(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    fail(ErrorKind::kMissingInput, "{}: not a regular file; expected a SentencePiece model", path);
  }
  if (status.st_size > kMaxTokenizerBytes) {
    fail(ErrorKind::kBadData,
         "{}: has {} bytes; expected a SentencePiece model of at most {}: is it the right file?", path,
         status.st_size, kMaxTokenizerBytes);
  }
  std::string model(static_cast<size_t>(status.st_size), '\0');
  read_all(file.fd(), model.data(), status.st_size, 0, path);
  return model;
}

}  // namespace

Tokenizer Tokenizer::from_file(const std::string& path) {
  return {read_model_file(path), path};
}

void Tokenizer::encode(std::string_view text, std::vector<int32_t>& ids) const {
  if (impl_->has_words) {
    ids.clear();
    const auto encoded = impl_->encode(text);
    for (const auto& piece : encoded.pieces()) {
      const bool unknown = static_cast<int32_t>(piece.id()) == unknown_id();
      ids.insert(ids.end(), unknown ? words_of_run(piece.piece()).size() : 1,
                 static_cast<int32_t>(piece.id()));
    }
    return;
  }
  const auto status = impl_->processor.Encode(text, &ids);
  if (!status.ok()) {
    fail(ErrorKind::kBadData, "{}: the tokenizer cannot encode a line of {} bytes: {}", impl_->origin,
         text.size(), status.error_message());
  }
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  encode(text, ids);
  return ids;
}

void Tokenizer::encode(std::string_view text, std::vector<int32_t>& ids, std::string& normalised) const {
  ids.clear();
  normalised.clear();
  const auto encoded = impl_->encode(text);
  for (const auto& piece : encoded.pieces()) {
    const auto id = static_cast<int32_t>(piece.id());
    ids.push_back(id);
    if (impl_->processor.IsByte(id)) {  // <0xE7>
      normalised.push_back(static_cast<char>(std::stoi(piece.piece().substr(3, 2), nullptr, 16)));
    } else {
      normalised += piece.piece();
    }
  }
}

std::string Tokenizer::decode(const std::vector<int32_t>& ids) const {
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) {
      fail(ErrorKind::kBadData, "{}: token {} is not in the vocabulary of {} tokens", impl_->origin, id,
           vocab_size());
    }
  }
  const auto decode = [&](const std::vector<int32_t>& part) {
    std::string text;
    const auto status = impl_->processor.Decode(part, &text);
    if (!status.ok()) {
      fail(ErrorKind::kBadData, "{}: the tokenizer cannot decode {} tokens: {}", impl_->origin, part.size(),
           status.error_message());
    }
    return text;
  };
  std::string text;
  if (impl_->has_words) {
    const auto append = [&text](const std::string& words) {
      if (!words.empty()) text += (text.empty() ? "" : " ") + words;
    };
    for (auto begin = ids.begin();;) {
      const auto unknown = std::find(begin, ids.end(), unknown_id());
      append(decode({begin, unknown}));
      if (unknown == ids.end()) break;
      append("<unk>");
      begin = unknown + 1;
    }
  } else {
    text = decode(ids);
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string Tokenizer::piece(int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    fail(ErrorKind::kBadData, "{}: token {} is not in the vocabulary of {} tokens", impl_->origin, id,
         vocab_size());
  }
  return impl_->processor.IdToPiece(id);
}

int32_t Tokenizer::find(std::string_view piece) const {
  const int32_t id = impl_->processor.PieceToId(piece);  // the unknown token if there is none
  return impl_->processor.IdToPiece(id) == piece ? id : -1;
}

int32_t Tokenizer::vocab_size() const {
  return impl_->processor.GetPieceSize();
}
int32_t Tokenizer::unknown_id() const {
  return impl_->processor.unk_id();
}
int32_t Tokenizer::begin_id() const {
  return has_begin() ? impl_->processor.bos_id() : unknown_id();
}
bool Tokenizer::has_begin() const {
  return impl_->processor.bos_id() >= 0;
}
int32_t Tokenizer::end_id() const {
  return impl_->processor.eos_id();
}
const std::string& Tokenizer::model() const {
  return impl_->model;
}

std::string vocabulary_difference(const Tokenizer& a, const Tokenizer& b) {
  if (a.vocab_size() != b.vocab_size()) {
    return fmt::format("{} tokens and {} tokens", a.vocab_size(), b.vocab_size());
  }
  for (int32_t token = 0; token < a.vocab_size(); ++token) {
    if (a.piece(token) == b.piece(token)) continue;
    return fmt::format("token {} is '{}' in one and '{}' in the other", token, a.piece(token),
                       b.piece(token));
  }
  const auto marks = [](const Tokenizer& t) {
    return fmt::format("unknown {}, begin {}, end {}", t.unknown_id(), t.begin_id(), t.end_id());
  };
  if (marks(a) != marks(b)) return fmt::format("the marks are {} and {}", marks(a), marks(b));
  return "";
}

TokenizerPair::TokenizerPair(const TokenizerModels& models, const std::string& origin)
    : target_(models.target, models.source.empty() ? origin : origin + " (targets)"),
      own_source_(models.source.empty() ? nullptr
                                        : std::make_unique<Tokenizer>(models.source, origin + " (sources)")) {
}

TokenizerModels TokenizerPair::models() const {
  return {.target = target_.model(), .source = own_source_ ? own_source_->model() : std::string()};
}

int32_t largest_vocabulary(const TokenizerPair& tokenizers) {
  return std::max(tokenizers.source().vocab_size(), tokenizers.target().vocab_size());
}

std::string vocabulary_difference(const TokenizerPair& a, const TokenizerPair& b) {
  if (a.shared() != b.shared()) {
    return a.shared() ? "the first has one vocabulary for both sides, the second one for each"
                      : "the first has a vocabulary for each side, the second one for both";
  }
  const std::string of_targets = vocabulary_difference(a.target(), b.target());
  if (a.shared() || !of_targets.empty()) {
    return of_targets.empty() || a.shared() ? of_targets : fmt::format("targets: {}", of_targets);
  }
  const std::string of_sources = vocabulary_difference(a.source(), b.source());
  return of_sources.empty() ? of_sources : fmt::format("sources: {}", of_sources);
}

}  // namespace ventris::data
