// SPDX-License-Identifier: Apache-2.0
#include "data/corpus_format.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/error.h"
#include "data/io/json_text.h"

namespace ventris::data {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const CorpusPart& part) {
  return {{"name", part.name},
          {"first", part.first},
          {"pairs", part.pairs},
          {"source_tokens", part.source_tokens},
          {"target_tokens", part.target_tokens},
          {"longest_source", part.longest_source},
          {"longest_target", part.longest_target},
          {"details", read_ordered_json(part.details)}};
}

int64_t number(const Json& json, const char* key, int64_t max) {
  const Json& value = json.at(key);
  if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() > max)
    throw std::out_of_range(fmt::format("{} is {}", key, json_text(value)));
  return value.get<int64_t>();
}

/// A count, which is added to a sum. Their limit is such that twice the pairs, and the tokens of both sides,
/// do not overflow; whether the file has as many is checked with its arrays.
int64_t added(const Json& json, const char* key, int64_t& sum) {
  constexpr int64_t kMaxCount = std::numeric_limits<int64_t>::max() / 4;
  const int64_t count = number(json, key, kMaxCount - sum);
  sum += count;
  return count;
}

/// The part that follows those of which `before` has the sums, and is added to them.
CorpusPart part_of(const Json& json, CorpusPart& before) {
  constexpr int64_t kLongest = std::numeric_limits<int>::max() - 1;
  CorpusPart part{.name = json.at("name").get<std::string>()};
  part.first = number(json, "first", std::numeric_limits<int64_t>::max());
  if (part.first != before.pairs)
    throw std::out_of_range(fmt::format("{} begins at pair {}, not {}", part.name, part.first, before.pairs));
  part.pairs = added(json, "pairs", before.pairs);
  part.source_tokens = added(json, "source_tokens", before.source_tokens);
  part.target_tokens = added(json, "target_tokens", before.target_tokens);
  part.longest_source =
      static_cast<int>(number(json, "longest_source", std::min(kLongest, part.source_tokens)));
  part.longest_target =
      static_cast<int>(number(json, "longest_target", std::min(kLongest, part.target_tokens)));
  part.details = json_text(json.at("details"));
  return part;
}

}  // namespace

std::string parts_json(const std::vector<CorpusPart>& parts) {
  Json list = Json::array();
  for (const CorpusPart& part : parts) list.push_back(json_of(part));
  return json_text(list);
}

std::string part_json(const CorpusPart& part) {
  return json_text(json_of(part));
}

std::string more_valid_group(const std::string& name) {
  return "/more_valid/" + name;
}

std::vector<CorpusPart> parts_of_json(const std::string& json, const std::string& attribute,
                                      const std::string& path) {
  const bool are_sets = attribute != kPartsAttribute;
  std::vector<CorpusPart> parts;
  try {
    const Json read = read_ordered_json(json);
    CorpusPart sum;
    for (const Json& each : attribute == kValidAttribute ? Json::array({read}) : read) {
      if (are_sets) sum = {};
      const CorpusPart part = part_of(each, sum);
      if (are_sets && !is_corpus_name(part.name))
        throw std::out_of_range("the name of a set has other characters than a-z, 0-9, _ and -");
      if (are_sets && std::ranges::count(parts, part.name, &CorpusPart::name) > 0)
        throw std::out_of_range(fmt::format("{} is there twice", part.name));
      parts.push_back(part);
    }
    if (parts.empty()) throw std::out_of_range("its list is empty");
  } catch (const std::exception& error) {  // of the library or number()
    fail(ErrorKind::kBadData, "{}: the attribute {} does not describe pairs: {}. Prepare the corpus again.",
         path, attribute, error.what());
  }
  return parts;
}

}  // namespace ventris::data
