// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backend/context.h"
#include "launch/decoding_options.h"

namespace ventris {

struct Job;

/// The sentences whose translation and attention a report shows.
struct AttentionRequest {
  std::vector<std::string> sentences;
  std::vector<std::string> references;  // none, or one for each sentence
  int checkpoints = 6;                  // of a run, at most
  DecodingOptions decoding;             // without models
};

inline constexpr size_t kMaxReportSentences = 4;
inline constexpr int kMaxReportCheckpoints = 24;
/// Of the weights of all maps of a page. Where there are more, it has the translations without maps: of runs
/// first those of their models, then of the newest checkpoints.
inline constexpr size_t kMaxReportMapBytes = size_t{32} << 20;

/// What a checkpoint made of a sentence.
struct SentenceOfCheckpoint {
  std::string problem = {};  // why there is nothing else; "" if there is
  std::string translation = {};
  std::string given_problem = {};          // why the reference has no maps
  nlohmann::ordered_json translated = {};  // attention_groups() of the translation; null without maps
  nlohmann::ordered_json given = {};       // of the reference; likewise
};

struct CheckpointAttention {
  std::string path;
  int64_t step = 0;
  std::string problem = {};                          // why it could not be read; "" if it could
  std::vector<SentenceOfCheckpoint> sentences = {};  // those of the request
  size_t map_bytes = 0;
  bool leaves_out_maps = false;  // for want of room
};

struct RunAttention {
  std::string problem = {};  // why there are no checkpoints, or which is the best is not known
  std::vector<CheckpointAttention> checkpoints = {};  // by step
  size_t model = 0;  // which of them is the run's model: the best, otherwise the newest
  bool model_is_best = false;
  size_t kept = 0;  // checkpoints in the folder

  /// What is not as it should be, for a person; each once.
  std::vector<std::string> warnings(const std::string& folder) const;
};

/// Translates the sentences of a report with the checkpoints of runs, and computes their attention.
class RunAttentionReader {
 public:
  /// Checks the request, and finds the device if there are sentences. Throws Error(kUsage) and DataError.
  RunAttentionReader(const Job& job, AttentionRequest request);

  const AttentionRequest& request() const { return request_; }
  bool is_asked() const { return !request_.sentences.empty(); }
  /// Of each run. What cannot be read is a problem of its run or checkpoint, not an error.
  std::vector<RunAttention> read(const std::vector<std::string>& folders);

 private:
  CheckpointAttention compute(const std::string& path, size_t room);

  const Job& job_;
  AttentionRequest request_;
  std::unique_ptr<Context> context_;
};

}  // namespace ventris
