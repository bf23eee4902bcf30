// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ventris {

/// The number of arguments of an option on the command line.
enum class Arity { kSwitch, kOne, kMany };

/// One option of a command: the source for the parser, the help text and docs/commands.md.
struct Option {
  std::string name;         // long name without the dashes; for an operand, its name in help
  std::string placeholder;  // of the value, e.g. "FILE" or "N"; empty for a switch
  std::string help;         // one or more sentences
  std::string group;        // heading in the help text
  std::string limits;       // "at least 1", "f32 or bf16"; empty if any text is accepted
  Arity arity = Arity::kOne;
  bool required = false;
  bool operand = false;                // given without its name
  bool from_preset = false;            // the default is that of the preset
  std::vector<std::string> aliases;    // other spellings on the command line, with their dashes: "-tok"
  std::vector<std::string> excludes;   // names of opposite options; one of them beside this one is an error
  std::string needs;                   // name of an option; by OptionTable::without_effect()
  std::vector<std::string> needs_not;  // its values with which this one has no effect

  /// Stores values given by the user; `where` names the option as the user wrote it. Throws OptionError.
  std::function<void(const std::vector<std::string>& values, const std::string& where)> store;
  /// The current value as the user would write it; the default, before a value was stored. "" for none.
  /// Throws OptionError if the variable has a value that the option does not accept.
  std::function<std::string()> show;
};

/// A value given by the user is not valid.
class OptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The options of one command in the order of the help text, bound to variables that must outlive the table.
/// A variable's value at the time of the call to show() is the default that help prints.
class OptionTable {
 public:
  /// Heading for the options that follow.
  void group(const std::string& title) { group_ = title; }

  template <typename T>
  struct Range {
    T min = std::numeric_limits<T>::lowest();
    T max = std::numeric_limits<T>::max();
    bool above_min = false;  // `min` itself is not allowed
    bool below_max = false;
  };

  Option& text(const std::string& name, const std::string& placeholder, std::string& variable,
               const std::string& help);
  /// A text that may be absent: an empty value means none, so that a value from a file of --config can be
  /// cleared.
  Option& optional_text(const std::string& name, const std::string& placeholder, std::string& variable,
                        const std::string& help);
  Option& texts(const std::string& name, const std::string& placeholder, std::vector<std::string>& variable,
                const std::string& help);
  Option& integer(const std::string& name, int& variable, Range<int> range, const std::string& help);
  Option& integer(const std::string& name, int64_t& variable, Range<int64_t> range, const std::string& help);
  Option& integer(const std::string& name, uint64_t& variable, Range<uint64_t> range,
                  const std::string& help);
  Option& number(const std::string& name, float& variable, Range<double> range, const std::string& help);
  Option& number(const std::string& name, double& variable, Range<double> range, const std::string& help);
  /// A switch: false unless given; `NAME = yes` or `NAME = no` in a configuration file.
  Option& toggle(const std::string& name, bool& variable, const std::string& help);
  /// One of several words, stored as the `value` of the same index.
  template <typename T>
  Option& choice(const std::string& name, T& variable, const std::vector<std::pair<std::string, T>>& choices,
                 const std::string& help);
  Option& choice(const std::string& name, std::string& variable, const std::vector<std::string>& choices,
                 const std::string& help);
  /// One of several words, which set() and get() know by their index; get() gives the number of words if the
  /// value is none of them.
  Option& choice(const std::string& name, const std::vector<std::string>& words,
                 std::function<void(size_t)> set, std::function<size_t()> get, const std::string& help);
  /// The operands: arguments without an option name. At most one such entry in a table.
  Option& operands(const std::string& placeholder, std::vector<std::string>& variable,
                   const std::string& help);

  /// These options have no effect while the option `other`, declared before as they are, shows one of
  /// `values`: then it is an error to give one another value than it has anyway.
  void without_effect(const std::vector<std::string>& names, const std::string& other,
                      const std::vector<std::string>& values);

  const std::vector<Option>& options() const { return options_; }
  /// Null if there is none of that name.
  const Option* find(const std::string& name) const;

 private:
  Option& add(Option option);
  template <typename T>
  Option& add_number(const std::string& name, const std::string& placeholder, T& variable,
                     Range<double> range, const std::string& help);
  template <typename T>
  Option& add_integer(const std::string& name, T& variable, Range<T> range, const std::string& help);

  std::vector<Option> options_;
  std::string group_ = "Options";
};

template <typename T>
Option& OptionTable::choice(const std::string& name, T& variable,
                            const std::vector<std::pair<std::string, T>>& choices, const std::string& help) {
  std::vector<std::string> words;
  for (const auto& [word, value] : choices) words.push_back(word);
  return choice(
      name, words, [&variable, choices](size_t index) { variable = choices[index].second; },
      [&variable, choices]() {
        size_t index = 0;
        while (index < choices.size() && choices[index].second != variable) ++index;
        return index;
      },
      help);
}

}  // namespace ventris
