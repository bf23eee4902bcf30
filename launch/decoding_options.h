#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/packed_gemm.h"
#include "launch/option_table.h"
#include "model/search/beam_search.h"

namespace ventris {

struct Job;

/// What translate, evaluate and score share.
struct DecodingOptions {
  std::vector<std::string> models;
  BeamSearchOptions search;
  Packing precision = Packing::kF32;  // of products; activations are of its factor_dtype()
  std::string device = "auto";
  int threads = 0;
  std::string isa = "auto";
};

/// --model
void add_models_option(DecodingOptions& decoding, OptionTable& table);
/// The groups "Search", "Sampling" and "Machine".
void add_search_options(DecodingOptions& decoding, OptionTable& table);
/// The group "Machine".
void add_machine_options(DecodingOptions& decoding, OptionTable& table);

/// make_context() for what is asked for. int8 is of the CPU alone: throws Error(kUsage) with --device cuda;
/// with auto it is the CPU, and a program that could have taken CUDA says so.
std::unique_ptr<Context> make_decoding_context(const Job& job, const DecodingOptions& decoding);

/// Says that a sentence was cut, for the first few sentences; counts all.
class CutSentences {
 public:
  /// `longest`: tokens that a sentence may have.
  CutSentences(const Job& job, const std::string& command, size_t longest)
      : job_(job), command_(command), longest_(longest) {}

  /// Tells if a sentence had more than the longest; `where` names it, for example "line 7".
  void check(const std::string& where, size_t tokens);
  /// One line for all, if any were cut.
  void tell_total(int64_t sentences) const;

 private:
  const Job& job_;
  std::string command_;
  size_t longest_;
  int64_t cut_ = 0;
};

}  // namespace ventris
