// SPDX-License-Identifier: Apache-2.0
#include "trainer/files/metrics_sample.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "backend/error.h"
#include "data/files/file_io.h"
#include "trainer/files/json_number.h"
#include "trainer/files/json_text.h"
#include "trainer/files/lines_from_end.h"
#include "trainer/files/metric_events.h"

namespace ventris {
namespace {

using Json = nlohmann::json;

// A line is looked for in so many bytes behind a place.
constexpr int64_t kPlaces = 256;
constexpr int64_t kPlaceBytes = kSampledBytes / kPlaces;

struct File {
  int fd;
  int64_t size;
  const std::string& path;
};

std::optional<double> number_in(const Json& line, const char* key) {
  double value = 0.0;
  if (!line.contains(key) || !read_number(line[key], value)) return std::nullopt;
  return value;
}

/// A line that has the text `key` in it, as an object with a step; otherwise a discarded value.
Json line_with(std::string_view text, std::string_view key, const std::string& path, int64_t& step) {
  if (text.find(key) == std::string_view::npos) return Json(Json::value_t::discarded);
  Json line = parse_json(text);
  refuse_newer_format(line, path);
  const bool has_step = line.is_object() && line.contains("step") && read_number(line["step"], step);
  return has_step && step >= 0 ? line : Json(Json::value_t::discarded);
}

/// Adds the losses of the whole lines among these bytes, at most so many.
void add_losses(std::string_view bytes, size_t max, const std::string& path, std::vector<LoggedLoss>& to) {
  for (size_t begin = 0, end = 0; (end = bytes.find('\n', begin)) != std::string_view::npos && max > 0;
       begin = end + 1) {
    LoggedLoss loss;
    const Json line = line_with(bytes.substr(begin, end - begin), "\"loss\":", path, loss.step);
    const std::optional<double> value = line.is_discarded() ? std::nullopt : number_in(line, "loss");
    if (!value) continue;
    loss.loss = *value;
    to.push_back(loss);
    --max;
  }
}

std::vector<LoggedLoss> sampled_losses(const File& file) {
  std::vector<LoggedLoss> losses;
  const auto read = [&](int64_t begin, int64_t bytes) {
    std::string text(static_cast<size_t>(bytes), '\0');
    data::read_all(file.fd, text.data(), bytes, begin, file.path);
    return text;
  };
  if (file.size <= kSampledBytes) {
    add_losses(read(0, file.size), static_cast<size_t>(file.size), file.path, losses);
    return losses;
  }
  for (int64_t place = 0; place < kPlaces; ++place) {
    const std::string text = read((file.size - kPlaceBytes) / (kPlaces - 1) * place, kPlaceBytes);
    const size_t whole = place == 0 ? 0 : text.find('\n') + 1;  // behind the rest of a line
    add_losses(std::string_view(text).substr(whole), 1, file.path, losses);
  }
  return losses;
}

std::vector<LoggedValidation> last_validations(const File& file, size_t max) {
  std::vector<LoggedValidation> validations;
  LinesFromEnd lines(file.fd, file.path);
  for (FileLine line; validations.size() < max && lines.previous(line);) {
    LoggedValidation found;
    const Json object = line_with(line.text, "\"valid_", file.path, found.step);
    if (!object.is_discarded()) {
      found.loss = number_in(object, "valid_loss");
      found.perplexity = number_in(object, "valid_perplexity");
      found.bleu = number_in(object, "valid_bleu");
      found.chrf = number_in(object, "valid_chrf");
      if (found.loss || found.perplexity || found.bleu || found.chrf) validations.push_back(found);
    }
    if (file.size - line.begin > kValidationBytes) break;
  }
  return validations;
}

}  // namespace

MetricsSample sample_metrics(const std::string& path, size_t validations) {
  const data::FileHandle handle(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!handle.valid() && errno == ENOENT) return {};
  struct stat status {};
  if (!handle.valid() || ::fstat(handle.fd(), &status) != 0)
    fail(ExitCode::kIo, "{}: cannot read the file: {}", path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(ExitCode::kBadData, "{}: is not a regular file", path);
  const File file{.fd = handle.fd(), .size = status.st_size, .path = path};
  return {.losses = sampled_losses(file), .validations = last_validations(file, validations)};
}

}  // namespace ventris
