// SPDX-License-Identifier: Apache-2.0
#include "data/prepare_tokenizer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <new>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "data/error.h"
#include "data/io/file_io.h"
#include "data/pair_block.h"
#include "data/prepare_checks.h"
#include "data/text/pair_reader.h"
#include "data/text/sentencepiece_format.h"

namespace ventris::data {

namespace {

constexpr int64_t kPairsBetweenReports = 1 << 14;
constexpr int kRepeatMs = 500;

using ProgressCall = std::function<void(const PrepareProgress&)>;

/// The tokenizer's training text: its sides of evenly spaced pairs. When the sample is full, every second
/// pair is removed and the distance doubles, so that one pass is enough, and for a long text the sample has
/// at least half of the allowed sentences.
class Sample {
 public:
  Sample(int64_t max_sentences, Sides sides)
      : sides_(sides),
        of_a_pair_(sides == Sides::kBoth ? 2 : 1),
        max_sentences_(of_a_pair_ * std::max<size_t>(1, static_cast<size_t>(max_sentences) / of_a_pair_)) {}

  void take(std::string_view source, std::string_view target) {
    if (index_++ % distance_ != 0) return;
    if (sides_ != Sides::kTarget) sentences_.emplace_back(source);
    if (sides_ != Sides::kSource) sentences_.emplace_back(target);
    if (sentences_.size() <= max_sentences_) return;
    size_t kept = 0;
    for (size_t pair = 0; pair < sentences_.size(); pair += 2 * of_a_pair_) {
      for (size_t side = 0; side < of_a_pair_; ++side) sentences_[kept++].swap(sentences_[pair + side]);
    }
    sentences_.resize(kept);
    distance_ *= 2;
  }
  const std::vector<std::string>& sentences() const { return sentences_; }

 private:
  Sides sides_;
  size_t of_a_pair_;  // sentences
  size_t max_sentences_;
  std::vector<std::string> sentences_;
  int64_t distance_ = 1;
  int64_t index_ = 0;
};

Sample sample_sentences(const PrepareOptions& options, Sides sides, const ProgressCall& progress) {
  Sample sample(options.tokenizer.max_sentences, sides);
  RawPair pair;
  std::string source_scratch;
  std::string target_scratch;
  int64_t pairs = 0;
  for (const TrainingCorpus& corpus : options.corpora) {
    PairReader reader(corpus.files, corpus.weights);
    while (reader.next_files()) {
      const PairFiles& files = corpus.files[reader.file()];
      const std::string source_path = files.source;
      const std::string target_path = files.target.empty() ? files.source : files.target;
      while (reader.next(pair)) {
        // Every line is checked here, so that bad text is found before the tokenizer is trained.
        const CleanLine source = clean_line(pair.source, source_scratch, source_path, reader.line_number());
        const CleanLine target = clean_line(pair.target, target_scratch, target_path, reader.line_number());
        sample.take(source.text, target.text);
        if (++pairs % kPairsBetweenReports == 0)
          progress({.phase = "reading", .pairs = pairs, .bytes = 0, .all_bytes = 0});
      }
    }
  }
  return sample;
}

/// Whether the tokenizer has the tag as one token, with the space before it or after a token of that space.
bool has_tag(const Tokenizer& tokenizer, const std::string& tag) {
  std::vector<int32_t> ids = tokenizer.encode(tag);
  if (ids.size() == 2 && tokenizer.piece(ids[0]) == kSpaceMark) ids.erase(ids.begin());
  if (ids.size() != 1 || ids[0] == tokenizer.unknown_id()) return false;
  const std::vector<int32_t> before_text = tokenizer.encode(tag + " a");
  return std::find(before_text.begin(), before_text.end(), ids[0]) != before_text.end();
}

std::string advice_on_tag(const std::string& tag, const PrepareOptions& options) {
  if (!options.tokenizer_model.empty()) {
    return fmt::format(
        "Train it with {} as a user-defined symbol (--user-symbols), take a tag that is a piece of it, or "
        "leave out the option that gives it",
        tag);
  }
  return "Take one that the tokenizer's normalisation leaves as it is, such as <bt>";
}

struct TrainedModel {
  std::string model;
  int64_t sentences = 0;
};

const char* training_phase(Sides sides) {
  switch (sides) {
    case Sides::kSource:
      return "training the tokenizer of sources";
    case Sides::kTarget:
      return "training the tokenizer of targets";
    case Sides::kBoth:
      break;
  }
  return "training the tokenizer";
}

/// The model of train_tokenizer(); an error names the side if there are two.
std::string train_on(const Sample& sample, const TokenizerTraining& training, Sides sides) {
  try {
    return train_tokenizer(sample.sentences(), training);
  } catch (const DataError& error) {
    if (sides == Sides::kBoth) throw;
    throw DataError(error.kind(),
                    fmt::format("{}: {}", sides == Sides::kSource ? "sources" : "targets", error.what()));
  }
}

// What the child writes into the pipe: reports, each this and a PrepareProgress, whose phase is a literal, an
// address that both processes have; then kResult or the kind of an error, and a text up to the end.
constexpr char kReport = 1;
constexpr char kResult = 0;
constexpr size_t kReportBytes = 1 + sizeof(PrepareProgress);

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  const auto* const system = dynamic_cast<const std::system_error*>(&error);  // of the stack of a thread
  return system != nullptr && system->code() == std::errc::resource_unavailable_try_again;
}

/// Reads to the end of the pipe, with a call of `progress` for each report and, without news, every
/// kRepeatMs. Returns what follows the reports.
std::string wait_for_answer(int fd, const ProgressCall& progress) {
  std::string answer;
  std::array<char, 1 << 16> piece{};
  PrepareProgress last{};
  for (;;) {
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    while (::poll(&ready, 1, kRepeatMs) == 0)
      if (last.phase != nullptr && progress) progress(last);
    const ssize_t done = ::read(fd, piece.data(), piece.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return answer;
    answer.append(piece.data(), static_cast<size_t>(done));
    for (; answer.size() >= kReportBytes && answer.front() == kReport; answer.erase(0, kReportBytes)) {
      std::memcpy(&last, answer.data() + 1, sizeof last);
      if (progress) progress(last);
    }
  }
}

/// Runs `work` in a child process (fork without exec), so that the system gets back all memory that the work
/// takes, and returns what it returns. `progress`, if any, is called in this process with what the work
/// reports, which is repeated while it reports nothing. SentencePiece ends a process by exit() where it
/// cannot go on, and a want of memory in its threads ends it by a signal. The child ends together with this
/// process, which must have one thread. Throws the DataError of the work; kUnavailable for a want of memory
/// or a signal, kBadData for another exception and for exit().
std::string run_in_child(const std::function<std::string(const ProgressCall&)>& work,
                         const ProgressCall& progress) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    fail(ErrorKind::kIo, "cannot create a pipe: {}", system_reason(errno));
  const FileHandle from(ends[0]);
  FileHandle to(ends[1]);
  const auto send = [&](int kind, std::string_view text) {
    const std::string all = static_cast<char>(kind) + std::string(text);
    for (size_t at = 0; at < all.size();) {
      const ssize_t done = ::write(to.fd(), all.data() + at, all.size() - at);
      if (done < 0 && errno != EINTR) ::abort();
      at += static_cast<size_t>(std::max<ssize_t>(done, 0));
    }
  };
  const auto send_error = [&](ErrorKind kind, const std::string& text) {
    send(static_cast<int>(kind), text);
  };
  const auto run_child = [&]() noexcept {  // what it cannot handle ends it by abort()
    try {
      send(kResult, work([&](const PrepareProgress& report) {
             send(kReport, {reinterpret_cast<const char*>(&report), sizeof report});
           }));
    } catch (const DataError& error) {
      send_error(error.kind(), error.what());
    } catch (const std::exception& error) {
      if (is_out_of_memory(error)) {
        send_error(
            ErrorKind::kUnavailable,
            "there is not enough memory to train the tokenizer; train it on fewer sentences (--tokenizer-sentences)");
      } else {
        send_error(ErrorKind::kBadData, fmt::format("the tokenizer could not be trained: {}", error.what()));
      }
    }
    ::_exit(0);
  };
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    std::set_terminate(std::abort);
    run_child();
  }
  if (child < 0) {
    fail(ErrorKind::kIo,
         "cannot start a process to train the tokenizer: {}; raise the limits on processes (ulimit -u, "
         "pids.max) or on memory",
         system_reason(errno));
  }
  to.close();
  const std::string answer = wait_for_answer(from.fd(), progress);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    fail(
        ErrorKind::kUnavailable,
        "the process that trains the tokenizer was ended by signal {} ({}), perhaps for want of memory: train "
        "on fewer sentences (--tokenizer-sentences), or free memory",
        WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  }
  if (WEXITSTATUS(status) != 0 || answer.empty()) {
    fail(ErrorKind::kBadData,
         "SentencePiece cannot train a tokenizer on this text, for the reason above. Check that the text has "
         "characters other than blanks, and that --tokenizer-sentences is large enough. Nothing was written");
  }
  if (answer.front() != kResult) throw DataError(static_cast<ErrorKind>(answer.front()), answer.substr(1));
  return answer.substr(1);
}

TrainedModel train_in_child(const PrepareOptions& options, Sides sides) {
  const auto train = [&](const ProgressCall& progress) {
    const Sample sample = sample_sentences(options, sides, progress);
    const auto sentences = std::ssize(sample.sentences());
    const int64_t pairs = sides == Sides::kBoth ? sentences / 2 : sentences;
    progress({.phase = training_phase(sides), .pairs = pairs, .bytes = 0, .all_bytes = 0});
    return fmt::format("{}\n{}", sentences, train_on(sample, training_of(options, sides), sides));
  };
  const std::string answer = run_in_child(train, options.progress);
  const size_t end = answer.find('\n');
  return {answer.substr(end + 1), std::stoll(answer.substr(0, end))};
}

}  // namespace

TokenizerTraining training_of(const PrepareOptions& options, Sides sides) {
  TokenizerTraining training = options.tokenizer;
  if (sides == Sides::kSource) training.vocab_size = options.source_vocab_size;
  if (sides != Sides::kBoth) {
    training.size_option = sides == Sides::kSource ? "--source-vocab-size" : "--target-vocab-size";
  }
  const std::string mark(training.no_dummy_prefix ? "" : kSpaceMark);
  std::set<std::string> pieces;
  for (const TrainingCorpus& corpus : options.corpora) {
    if (sides != Sides::kTarget && !corpus.source_tag.empty()) pieces.insert(mark + corpus.source_tag);
    if (sides != Sides::kSource && !corpus.target_tag.empty()) pieces.insert(mark + corpus.target_tag);
  }
  training.user_symbols.insert(training.user_symbols.end(), pieces.begin(), pieces.end());
  return training;
}

PreparedTokenizers make_tokenizers(const PrepareOptions& options) {
  if (!options.tokenizer_models.target.empty()) {
    return {TokenizerPair(options.tokenizer_models, options.tokenizer_model), 0, 0};
  }
  if (!options.tokenizer_model.empty()) {
    Tokenizer given = Tokenizer::from_file(options.tokenizer_model);
    if (options.source_tokenizer_model.empty()) return {TokenizerPair(std::move(given)), 0, 0};
    return {{Tokenizer::from_file(options.source_tokenizer_model), std::move(given)}, 0, 0};
  }
  const bool shared = options.source_vocab_size == 0;
  TrainedModel source;
  if (!shared) source = train_in_child(options, Sides::kSource);
  TrainedModel target = train_in_child(options, shared ? Sides::kBoth : Sides::kTarget);
  return {TokenizerPair({.target = std::move(target.model), .source = std::move(source.model)},
                        "the tokenizer trained on the text"),
          target.sentences, source.sentences};
}

void check_tags(const PrepareOptions& options, const TokenizerPair& tokenizers) {
  const auto check = [&](const std::string& tag, const TrainingCorpus& corpus, const Tokenizer& tokenizer,
                         const char* of_side) {
    if (tag.empty() || has_tag(tokenizer, tag)) return;
    const std::vector<int32_t> ids = tokenizer.encode(tag);
    fail(ErrorKind::kBadConfiguration, "the tag '{}' of {} is not one token of the tokenizer{}, but {}. {}",
         tag, corpus.name, tokenizers.shared() ? "" : of_side,
         ids.size() == 1 ? std::string("unknown to it") : fmt::format("{} tokens", ids.size()),
         advice_on_tag(tag, options));
  };
  for (const TrainingCorpus& corpus : options.corpora) {
    check(corpus.source_tag, corpus, tokenizers.source(), " of sources");
    check(corpus.target_tag, corpus, tokenizers.target(), " of targets");
  }
}

int64_t bytes_of(const std::vector<PairFiles>& files) {
  int64_t bytes = 0;
  for (const std::string& path : paths_of(files)) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (!error) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

}  // namespace ventris::data
