// SPDX-License-Identifier: Apache-2.0
#include "trainer/options/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "backend/device/error.h"
#include "data/io/json_value.h"

namespace ventris {
namespace {

using nlohmann::json;

template <typename... Args>
[[noreturn]] void reject(fmt::format_string<Args...> format, Args&&... args) {
  throw OptionError(fmt::format(format, std::forward<Args>(args)...));
}

template <typename T>
T parse_value(const std::string& text, const char* kind, const std::string& where) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) reject("{}: {} is out of range", where, text);
  if (error != std::errc() || end != text.data() + text.size())
    reject("{}: '{}' is not {}", where, text, kind);
  return value;
}

bool parse_yes_no(const std::string& text, const std::string& where) {
  if (text == "yes" || text == "true" || text == "on" || text == "1") return true;
  if (text == "no" || text == "false" || text == "off" || text == "0") return false;
  reject("{}: '{}' is neither yes nor no", where, text);
}

// "at least 1", "from 0 to 1", "above 0": empty if everything of the type is allowed.
template <typename T, typename Limits>
std::string describe_range(const Limits& range, const char* format) {
  const auto shown = [format](T value) { return fmt::format(fmt::runtime(format), value); };
  const bool low = range.min != std::numeric_limits<T>::lowest();
  const bool high = range.max != std::numeric_limits<T>::max();
  const std::string min = (range.above_min ? "above " : "at least ") + shown(range.min);
  const std::string max = (range.below_max ? "below " : "at most ") + shown(range.max);
  if (low && high && !range.above_min && !range.below_max) {
    return fmt::format("from {} to {}", shown(range.min), shown(range.max));
  }
  if (low && high) return min + " and " + max;
  return low ? min : high ? max : "";
}

template <typename T>
bool inside(T value, const OptionTable::Range<T>& range) {
  const bool low = range.above_min ? value > range.min : value >= range.min;
  const bool high = range.below_max ? value < range.max : value <= range.max;
  return low && high;
}

template <typename T>
Option option_of(const std::string& name, const std::string& placeholder, T& variable,
                 const std::string& help, OptionTraits traits) {
  Option option;
  option.name = name;
  option.placeholder = placeholder;
  option.help = help;
  option.traits = traits;
  option.to_json = [&variable] { return data::to_json_value<json>(variable); };
  option.from_json = [&variable](const json& from) { return data::read_json_value(from, variable); };
  option.json_type = data::expected_json_value<T>();
  return option;
}

}  // namespace

std::string Option::key() const {
  std::string key = name;
  std::ranges::replace(key, '-', '_');
  return key;
}

Option& OptionTable::add(Option option) {
  VENTRIS_CHECK(find(option.name) == nullptr, "option {} is declared twice", option.name);
  option.group = group_;
  option.section = section_;
  options_.push_back(std::move(option));
  return options_.back();
}

void OptionTable::without_effect(const std::vector<std::string>& names, const std::string& other,
                                 const std::vector<std::string>& values) {
  VENTRIS_CHECK(find(other) != nullptr, "there is no option {}", other);
  for (const std::string& name : names) {
    const auto option = std::ranges::find(options_, name, &Option::name);
    VENTRIS_CHECK(option != options_.end(), "there is no option {}", name);
    option->needs = other;
    option->needs_not = values;
  }
}

void OptionTable::check() const {
  for (const Option& option : options_) {
    if (option.arity != Arity::kOne) continue;
    if (const std::string value = option.show(); !value.empty()) option.store({value}, "--" + option.name);
  }
}

const Option* OptionTable::find(const std::string& name) const {
  for (const Option& option : options_) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

Option& OptionTable::text(const std::string& name, const std::string& placeholder, std::string& variable,
                          const std::string& help, OptionTraits traits) {
  Option option = option_of(name, placeholder, variable, help, traits);
  option.store = [&variable](const std::vector<std::string>& values, const std::string& where) {
    if (values.front().empty()) reject("{}: the value is empty", where);
    variable = values.front();
  };
  option.show = [&variable] { return variable; };
  return add(std::move(option));
}

Option& OptionTable::optional_text(const std::string& name, const std::string& placeholder,
                                   std::string& variable, const std::string& help, OptionTraits traits) {
  Option& option = text(name, placeholder, variable, help, traits);
  option.limits = "\"\" for none";
  option.store = [&variable](const std::vector<std::string>& values, const std::string&) {
    variable = values.front();
  };
  return option;
}

Option& OptionTable::texts(const std::string& name, const std::string& placeholder,
                           std::vector<std::string>& variable, const std::string& help, OptionTraits traits) {
  Option option = option_of(name, placeholder, variable, help, traits);
  option.arity = Arity::kMany;
  option.store = [&variable](const std::vector<std::string>& values, const std::string& where) {
    for (const std::string& value : values) {
      if (value.empty()) reject("{}: a value is empty", where);
    }
    variable = values;
  };
  option.show = [&variable] { return fmt::format("{}", fmt::join(variable, " ")); };
  return add(std::move(option));
}

Option& OptionTable::operands(const std::string& placeholder, std::vector<std::string>& variable,
                              const std::string& help) {
  Option& option = texts(placeholder, placeholder, variable, help);
  option.operand = true;
  return option;
}

template <typename T>
Option& OptionTable::integer(const std::string& name, T& variable, Range<T> range, const std::string& help,
                             OptionTraits traits) {
  Option option = option_of(name, "N", variable, help, traits);
  option.limits = describe_range<T>(range, "{}");
  if (!option.limits.empty()) option.json_type = "an integer " + option.limits;
  const std::string limits = option.limits;
  option.store = [&variable, range, limits](const std::vector<std::string>& values,
                                            const std::string& where) {
    const T value = parse_value<T>(values.front(), "a whole number", where);
    if (!inside(value, range)) reject("{} must be {}, not {}", where, limits, value);
    variable = value;
  };
  option.show = [&variable] { return fmt::format("{}", variable); };
  return add(std::move(option));
}

template Option& OptionTable::integer(const std::string&, int&, Range<int>, const std::string&, OptionTraits);
template Option& OptionTable::integer(const std::string&, int64_t&, Range<int64_t>, const std::string&,
                                      OptionTraits);
template Option& OptionTable::integer(const std::string&, uint64_t&, Range<uint64_t>, const std::string&,
                                      OptionTraits);

template <typename T>
Option& OptionTable::number(const std::string& name, T& variable, Range<double> range,
                            const std::string& help, OptionTraits traits) {
  Option option = option_of(name, "X", variable, help, traits);
  option.limits = describe_range<double>(range, "{}");
  if (!option.limits.empty()) option.json_type = "a number " + option.limits;
  const std::string limits = option.limits;
  // A limit that T does not have, such as 0.01, is itself allowed: rounded as the value is.
  using Limits = std::numeric_limits<T>;
  const auto rounded = [](double limit) {
    return static_cast<T>(
        std::clamp(limit, static_cast<double>(Limits::lowest()), static_cast<double>(Limits::max())));
  };
  const Range<T> allowed = {.min = rounded(range.min),
                            .max = rounded(range.max),
                            .above_min = range.above_min,
                            .below_max = range.below_max};
  option.store = [&variable, allowed, limits](const std::vector<std::string>& values,
                                              const std::string& where) {
    const T value = parse_value<T>(values.front(), "a number", where);
    if (!std::isfinite(value)) reject("{}: {} is not a finite number", where, values.front());
    if (!inside<T>(value, allowed)) reject("{} must be {}, not {}", where, limits, values.front());
    variable = value;
  };
  option.show = [&variable] { return fmt::format("{}", variable); };
  return add(std::move(option));
}

template Option& OptionTable::number(const std::string&, float&, Range<double>, const std::string&,
                                     OptionTraits);
template Option& OptionTable::number(const std::string&, double&, Range<double>, const std::string&,
                                     OptionTraits);

Option& OptionTable::toggle(const std::string& name, bool& variable, const std::string& help,
                            OptionTraits traits) {
  Option option = option_of(name, "", variable, help, traits);
  option.arity = Arity::kSwitch;
  option.store = [&variable](const std::vector<std::string>& values, const std::string& where) {
    variable = values.empty() || parse_yes_no(values.front(), where);
  };
  option.show = [&variable] { return std::string(variable ? "yes" : "no"); };
  return add(std::move(option));
}

Option& OptionTable::choice(const std::string& name, const std::vector<std::string>& words,
                            std::function<void(size_t)> set, std::function<size_t()> get,
                            const std::string& help, OptionTraits traits) {
  Option option;
  option.name = name;
  option.placeholder = fmt::format("{}", fmt::join(words, "|"));
  option.help = help;
  option.traits = traits;
  const auto take = [words, set = std::move(set)](const std::string& wanted) {
    const auto found = std::ranges::find(words, wanted);
    if (found != words.end()) set(static_cast<size_t>(found - words.begin()));
    return found != words.end();
  };
  option.store = [words, take](const std::vector<std::string>& values, const std::string& where) {
    if (!take(values.front()))
      reject("{}: '{}' is not one of {}", where, values.front(), fmt::join(words, ", "));
  };
  option.show = [name, words, get = std::move(get)] {
    const size_t index = get();
    if (index == words.size()) reject("--{} must be one of {}", name, fmt::join(words, ", "));
    return words[index];
  };
  option.to_json = [show = option.show] { return json(show()); };
  option.from_json = [take](const json& from) { return from.is_string() && take(from.get<std::string>()); };
  option.json_type = fmt::format("{}", fmt::join(words, " or "));
  return add(std::move(option));
}

Option& OptionTable::choice(const std::string& name, std::string& variable,
                            const std::vector<std::string>& choices, const std::string& help,
                            OptionTraits traits) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& word : choices) pairs.emplace_back(word, word);
  return choice<std::string>(name, variable, pairs, help, traits);
}

}  // namespace ventris
