#include "data/corpus_format.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/error.h"

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
          {"details", Json::parse(part.details)}};
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

int64_t number(const Json& json, const char* key, int64_t max) {
  const auto value = json.at(key).get<int64_t>();
  if (!json.at(key).is_number_integer() || value < 0 || value > max)
    throw std::out_of_range(fmt::format("{} is {}", key, value));
  return value;
}

CorpusPart part_of(const Json& json) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max() / 4;  // sums of two do not overflow
  constexpr int64_t kLongest = std::numeric_limits<int>::max() - 1;
  return {.name = json.at("name").get<std::string>(),
          .first = number(json, "first", kAny),
          .pairs = number(json, "pairs", kAny),
          .source_tokens = number(json, "source_tokens", kAny),
          .target_tokens = number(json, "target_tokens", kAny),
          .longest_source = static_cast<int>(number(json, "longest_source", kLongest)),
          .longest_target = static_cast<int>(number(json, "longest_target", kLongest)),
          .details = text_of(json.at("details"))};
}

template <typename Read>
auto parsed(const std::string& json, const char* name, const std::string& path, const Read& read) {
  try {
    return read(Json::parse(json));
  } catch (const std::exception& error) {  // of the library or number()
    fail(ErrorKind::kBadData, "{}: the attribute {} does not describe pairs: {}. Prepare the corpus again.",
         path, name, error.what());
  }
}

}  // namespace

std::string parts_json(const std::vector<CorpusPart>& parts) {
  Json list = Json::array();
  for (const CorpusPart& part : parts) list.push_back(json_of(part));
  return text_of(list);
}

std::string part_json(const CorpusPart& part) {
  return text_of(json_of(part));
}

std::vector<CorpusPart> parts_of_json(const std::string& json, const std::string& path) {
  return parsed(json, kPartsAttribute, path, [](const Json& list) {
    std::vector<CorpusPart> parts;
    int64_t next = 0;
    for (const Json& each : list) {
      parts.push_back(part_of(each));
      if (parts.back().first != next) {
        throw std::out_of_range(
            fmt::format("{} begins at pair {}, not {}", parts.back().name, parts.back().first, next));
      }
      next += parts.back().pairs;
    }
    if (parts.empty()) throw std::out_of_range("there is no corpus");
    return parts;
  });
}

CorpusPart part_of_json(const std::string& json, const std::string& path) {
  return parsed(json, kValidAttribute, path, [](const Json& each) { return part_of(each); });
}

}  // namespace ventris::data
