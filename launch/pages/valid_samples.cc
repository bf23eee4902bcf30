// SPDX-License-Identifier: Apache-2.0
#include "launch/pages/valid_samples.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "trainer/validation/valid_outputs.h"

namespace ventris {
namespace {

/// A regular file: a pipe would block.
std::ifstream opened(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return std::ifstream(path);
}

/// The number of lines; 0 for a file that cannot be read.
int64_t count_lines(const std::string& path) {
  std::ifstream file = opened(path);
  if (!file.is_open()) return 0;
  const std::istreambuf_iterator<char> end;
  return std::count(std::istreambuf_iterator<char>(file), end, '\n');
}

std::string shortened(std::string line) {
  if (line.size() <= kMaxSampleBytes) return line;
  size_t end = kMaxSampleBytes;  // of a whole character
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) --end;
  return line.substr(0, end) + "…";
}

/// The next line, or the beginning of one that is cut; false at the end.
bool next_line(std::ifstream& file, std::string& line) {
  line.clear();
  for (char c = 0; file.get(c);) {
    if (c == '\n') return true;
    if (line.size() <= kMaxSampleBytes) line += c;
  }
  return !line.empty();
}

/// Those lines, counted from 0 and rising; "" beyond the end of the file.
std::vector<std::string> lines_of(const std::string& path, const std::vector<int64_t>& numbers) {
  std::vector<std::string> found(numbers.size());
  std::ifstream file = opened(path);
  if (!file.is_open()) return found;
  std::string line;
  size_t taken = 0;
  for (int64_t number = 0; taken < numbers.size() && next_line(file, line); ++number)
    if (number == numbers[taken]) found[taken++] = shortened(line);
  return found;
}

}  // namespace

std::vector<int64_t> evenly_spread(int64_t size, int64_t most, bool with_ends) {
  const int64_t count = std::min(size, most);
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < count; ++i) {
    chosen.push_back(with_ends ? count > 1 ? i * (size - 1) / (count - 1) : size - 1
                               : (2 * i + 1) * size / (2 * count));
  }
  return chosen;
}

std::vector<ValidSamples> read_valid_samples(const std::string& model_dir) {
  std::map<std::string, std::vector<int64_t>> steps_of_set;
  for (const ValidOutput& output : list_valid_outputs(model_dir))
    steps_of_set[output.set].push_back(output.step);
  std::vector<ValidSamples> all;
  for (const auto& [set, steps] : steps_of_set) {
    ValidSamples samples;
    samples.set = set;
    const std::vector<int64_t> lines = evenly_spread(
        count_lines(path_of_valid_output(model_dir, steps.back(), set)), kSampledLines, /*with_ends=*/false);
    if (lines.empty()) continue;
    for (const int64_t line : lines) samples.lines.push_back(line + 1);
    samples.sources = lines_of(path_of_valid_text(model_dir, set, ValidSide::kSource), lines);
    samples.references = lines_of(path_of_valid_text(model_dir, set, ValidSide::kReference), lines);
    for (const int64_t i : evenly_spread(std::ssize(steps), kSampledSteps, /*with_ends=*/true)) {
      samples.steps.push_back(steps[static_cast<size_t>(i)]);
      samples.translations.push_back(
          lines_of(path_of_valid_output(model_dir, samples.steps.back(), set), lines));
    }
    all.push_back(std::move(samples));
  }
  return all;
}

}  // namespace ventris
