// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/ops/packed_gemm.h"
#include "model/search/beam_search.h"
#include "trainer/options/option_table.h"

namespace ventris {

struct Job;

/// Options shared by translate, evaluate and score.
struct DecodingOptions {
  std::vector<std::string> models;
  BeamSearchOptions search;
  Packing precision = Packing::kF32;  // of products; activations are of its factor_dtype()
  std::string device = "auto";
  int threads = 0;

  bool operator==(const DecodingOptions&) const = default;
};

/// --model
void add_models_option(DecodingOptions& decoding, OptionTable& table);
/// The groups "Search", "Sampling" and "Machine".
void add_search_options(DecodingOptions& decoding, OptionTable& table);
/// The group "Machine".
void add_machine_options(DecodingOptions& decoding, OptionTable& table);

/// make_context() for the options. int8 is for the CPU only: throws Error(kUsage) with --device cuda; with
/// auto the CPU is used, with a message if CUDA was available.
std::unique_ptr<Context> make_decoding_context(const Job& job, const DecodingOptions& decoding);

/// Reports truncated sentences: the first few individually, and the total.
class CutSentences {
 public:
  /// `longest`: maximum tokens of a sentence.
  CutSentences(const Job& job, const std::string& command, size_t longest)
      : job_(job), command_(command), longest_(longest) {}

  /// Reports a sentence that had more than the maximum; `where` names it, for example "line 7".
  void check(const std::string& where, size_t tokens);
  /// One line for all, if any were truncated.
  void tell_total(int64_t sentences) const;

 private:
  const Job& job_;
  std::string command_;
  size_t longest_;
  int64_t cut_ = 0;
};

}  // namespace ventris
