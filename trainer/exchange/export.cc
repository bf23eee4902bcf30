// SPDX-License-Identifier: Apache-2.0
#include "trainer/exchange/export.h"

#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "backend/device/error.h"
#include "data/io/atomic_file.h"
#include "data/io/atomic_folder.h"
#include "data/io/file_format.h"
#include "data/io/json_text.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/checkpoint/weights.h"
#include "trainer/exchange/export_formats.h"
#include "trainer/exchange/export_limits.h"
#include "trainer/exchange/marian_names.h"
#include "trainer/exchange/probe.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;

/// Files that only exports of one format, and of one or two vocabularies, have: programs would take an older
/// one for a part of the model.
constexpr const char* kTellingFiles[] = {"model.bin",
                                         "model.safetensors",
                                         "model.npz",
                                         "target_vocab.json",
                                         "shared_vocabulary.json",
                                         "source_vocabulary.json",
                                         "target_vocabulary.json",
                                         kMarianVocabulary,
                                         kMarianSourceVocabulary,
                                         kMarianTargetVocabulary,
                                         "sentencepiece.model",
                                         kMarianSourceTokenizer,
                                         kMarianTargetTokenizer};

/// The mark of our folders.
constexpr const char* kProbesFile = "probe.json";

/// Whether the folder is one that an export wrote, of whatever version, or began to write.
bool is_of_an_export(const std::string& folder) {
  const std::string path = (fs::path(folder) / kProbesFile).string();
  std::error_code error;  // of a missing file
  if (!fs::is_regular_file(path, error)) return false;
  try {
    const std::vector<uint8_t> bytes = data::read_file(path, data::kMaxTextBytes);
    const nlohmann::json object = data::try_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    const auto format = object.is_object() ? object.find(data::kFormatKey) : object.end();
    return format != object.end() && format->is_string() &&
           format->get_ref<const std::string&>().starts_with("ventris probes ");
  } catch (const data::DataError&) {
    return false;
  }
}

/// Refuses to replace files that no export of ours wrote, and to leave some beside the new files that do not
/// belong to their model.
void refuse_files_of_others(const std::string& folder, const std::vector<std::string>& files) {
  std::set<std::string> names;
  for (const std::string& file : files) names.insert(fs::path(file).filename().string());
  const auto is_there = [&](const std::string& name) {
    std::error_code error;  // of a missing file
    return fs::symlink_status(fs::path(folder) / name, error).type() != fs::file_type::not_found;
  };
  if (!is_of_an_export(folder)) {
    for (const std::string& name : names) {
      if (!is_there(name)) continue;
      fail(
          ExitCode::kCannotCreate,
          "{}: holds {}, which would be replaced, but 'ventris export' did not write it: no valid {} is beside it. "
          "Give another folder, or remove that file",
          folder, name, kProbesFile);
    }
  }
  for (const char* other : kTellingFiles) {
    if (names.contains(other) || !is_there(other)) continue;
    fail(
        ExitCode::kCannotCreate,
        "{}: holds {}, of another format or another number of vocabularies than the new model; programs would "
        "take it for a part of that model. Give another folder, or remove that file",
        folder, other);
  }
}

std::vector<std::string> write_folder(Context& context, const LoadedModel& model, ExportFormat format,
                                      const std::string& output, const std::string& probes,
                                      FilePrecision precision) {
  data::AtomicFolder folder(output);
  const std::string& to = folder.written_in();
  std::vector<std::string> files =
      format == ExportFormat::kCtranslate2   ? export_ctranslate2(context, model, to, precision)
      : format == ExportFormat::kHuggingface ? export_huggingface(context, model, to, precision)
                                             : export_marian(context, model, to);
  nlohmann::json proof = data::read_json(probes);
  proof[data::kFormatKey] = data::kProbesFormat;
  files.push_back(write_in_folder(to, kProbesFile, data::utf8_json_text(proof) + "\n"));
  refuse_files_of_others(output, files);
  folder.commit(fs::path(files.front()).filename().string(), kProbesFile);
  for (std::string& file : files) file = (fs::path(output) / fs::path(file).filename()).string();
  return files;
}

/// MarianTokenizer takes ">>...<<" at the beginning of a line for a language code, without the space before
/// it.
void check_symbols(const LoadedModel& model) {
  constexpr std::string_view kBegin = ">>";
  constexpr std::string_view kEnd = "<<";
  const data::Tokenizer& tokenizer = model.tokenizers->source();
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string piece = tokenizer.piece(id);
    if (piece.size() <= kBegin.size() + kEnd.size() || !piece.starts_with(kBegin) || !piece.ends_with(kEnd))
      continue;
    fail(
        ExitCode::kBadConfiguration,
        "{}: the format 'huggingface' cannot carry the symbol '{}' of the vocabulary: its tokenizer cuts lines "
        "that begin with >>...<< in another way. Use symbols of another form, such as <2de>",
        model.path, piece);
  }
}

/// CTranslate2 finds the marks of both vocabularies by one name, MarianTokenizer also by one id.
void check_marks(const LoadedModel& model, ExportFormat format) {
  const bool by_id = format == ExportFormat::kHuggingface;
  if (!by_id && format != ExportFormat::kCtranslate2) return;
  const data::Tokenizer& source = model.tokenizers->source();
  const data::Tokenizer& target = model.tokenizers->target();
  const auto check = [&](const char* mark, int32_t of_source, int32_t of_target) {
    if (source.piece(of_source) == target.piece(of_target) && (!by_id || of_source == of_target)) return;
    fail(
        ExitCode::kBadConfiguration,
        "{}: the format '{}' has one {} for both vocabularies, but that of sources is '{}' with id {}, that of "
        "targets '{}' with id {}. Use hdf5, safetensors or marian, or SentencePiece models with equal marks",
        model.path, name_of(format), mark, source.piece(of_source), of_source, target.piece(of_target),
        of_target);
  };
  check("unknown token", source.unknown_id(), target.unknown_id());
  check("end mark", source.end_id(), target.end_id());
  if (by_id) check("begin mark", source.begin_id(), target.begin_id());
}

void check_expressible(const LoadedModel& model, ExportFormat format) {
  std::string all;
  for (const ExportLimit& limit :
       export_limits(format, model.config, model.tokenizers->target().begin_id())) {
    all += fmt::format("{}{} (train with {})", all.empty() ? "" : "; ", limit.what, limit.remedy);
  }
  if (all.empty()) {
    if (format == ExportFormat::kHuggingface) check_symbols(model);
    check_marks(model, format);
    return;
  }
  fail(ExitCode::kBadConfiguration, "{}: the format '{}' cannot express this model: it has {}. Formats: {}",
       model.path, name_of(format), all,
       describe_exports(model.config, model.tokenizers->target().begin_id()));
}

void check_has_precision(ExportFormat format, FilePrecision precision) {
  if (precision == FilePrecision::kF32 || format == ExportFormat::kHdf5 ||
      format == ExportFormat::kSafetensors || format == ExportFormat::kCtranslate2)
    return;
  const bool huggingface = format == ExportFormat::kHuggingface;
  if (huggingface && precision == FilePrecision::kBF16) return;
  fail(ExitCode::kUsage,
       "--precision {}: the format '{}' supports only {}; "
       "hdf5, safetensors and ctranslate2 support f32, bf16 and int8",
       name_of(precision), name_of(format), huggingface ? "f32 and bf16" : "f32");
}

}  // namespace

std::vector<std::string> export_model(Context& context, LoadedModel& model, ExportFormat format,
                                      const std::string& output, const std::string& provenance,
                                      FilePrecision precision) {
  check_has_precision(format, precision);
  check_expressible(model, format);
  const bool is_file = format == ExportFormat::kHdf5 || format == ExportFormat::kSafetensors;
  is_file ? check_is_no_file_of_a_run(output) : check_is_no_run_folder(output);
  round_parameters(context, model.store, precision, model.path);
  const std::string probes = to_json(make_probes(context, model));
  if (format == ExportFormat::kHdf5) {
    save_weights(context, output, model.config, model.store, model.tokenizers->models(), provenance, probes,
                 model.averaged_checkpoints, precision);
    return {output};
  }
  if (format == ExportFormat::kSafetensors) {
    save_safetensors(context, output, model, provenance, probes, precision);
    return {output};
  }
  return write_folder(context, model, format, output, probes, precision);
}

}  // namespace ventris
