// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ventris {

/// The number of arguments of an option on the command line.
enum class Arity { kSwitch, kOne, kMany };

/// What a row says of its option beside type, values and help.
enum OptionTraits : unsigned {
  kByPreset = 1,  // the default is that of the preset
  kFixed = 2,     // a resumed run refuses another value
  kNewRun = 4,    // a resumed run does not read it
  kPlace = 8,     // says where the run is and how it starts: not a setting of the run
  kOfRank = 16,   // ranks may differ
  kSparse = 32,   // of a model: written to files only where it is not the default; other fields must be there
};
constexpr OptionTraits operator|(OptionTraits a, OptionTraits b) {
  return static_cast<OptionTraits>(unsigned{a} | unsigned{b});
}

/// One option of a command: the source for the parser, the help, docs/commands.md, config.json and what a
/// resumed run may change. Without help: a field of files that is no option.
struct Option {
  std::string name;         // long name without the dashes; for an operand, its name in help
  std::string placeholder;  // of the value, e.g. "FILE" or "N"; empty for a switch
  std::string help;         // one or more sentences
  std::string group;        // heading in the help text
  std::string limits;       // "at least 1", "f32 or bf16"; empty if any text is accepted
  Arity arity = Arity::kOne;
  bool required = false;
  bool operand = false;  // given without its name
  OptionTraits traits = {};
  std::string section;                 // object of config.json that holds it; empty: the outermost
  std::vector<std::string> aliases;    // other spellings on the command line, with their dashes: "-tok"
  std::vector<std::string> excludes;   // names of opposite options; one of them beside this one is an error
  std::string needs;                   // name of an option; by OptionTable::without_effect()
  std::vector<std::string> needs_not;  // its values with which this one has no effect

  /// Stores values given by the user; `where` names the option as the user wrote it. Throws OptionError.
  std::function<void(const std::vector<std::string>& values, const std::string& where)> store;
  /// The current value as the user would write it; the default, before a value was stored. "" for none.
  /// Throws OptionError if the variable has a value that the option does not accept.
  std::function<std::string()> show;
  /// The current value as JSON. Like from_json, empty for an option that files have as other fields.
  std::function<nlohmann::json()> to_json;
  /// False, with the variable unchanged, if the value is not of the type. Limits are those of store() alone.
  std::function<bool(const nlohmann::json&)> from_json;
  std::string json_type;  // "an integer from 0 to 65535", for messages

  bool has(OptionTraits trait) const { return (traits & trait) != 0; }
  std::string key() const;  // its name in files, with underscores
};

/// A value given by the user is not valid.
struct OptionError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The options of one command in the order of the help text, bound to variables that must outlive the table.
/// A variable's value at the time of the call to show() is the default that help prints.
class OptionTable {
 public:
  /// Heading for the options that follow.
  void group(const std::string& title) { group_ = title; }
  /// Object of config.json for those that follow; "": the outermost.
  void section(const std::string& name) { section_ = name; }

  template <typename T>
  struct Range {
    T min = std::numeric_limits<T>::lowest();
    T max = std::numeric_limits<T>::max();
    bool above_min = false;  // `min` itself is not allowed
    bool below_max = false;
  };

  Option& text(const std::string& name, const std::string& placeholder, std::string& variable,
               const std::string& help, OptionTraits traits = {});
  /// A text that may be absent: an empty value means none, and clears one from a file of --config.
  Option& optional_text(const std::string& name, const std::string& placeholder, std::string& variable,
                        const std::string& help, OptionTraits traits = {});
  Option& texts(const std::string& name, const std::string& placeholder, std::vector<std::string>& variable,
                const std::string& help, OptionTraits traits = {});
  /// T: int, int64_t or uint64_t; below float or double.
  template <typename T>
  Option& integer(const std::string& name, T& variable, Range<T> range, const std::string& help,
                  OptionTraits traits = {});
  template <typename T>
  Option& number(const std::string& name, T& variable, Range<double> range, const std::string& help,
                 OptionTraits traits = {});
  /// A switch: false unless given; `NAME = yes` or `NAME = no` in a configuration file.
  Option& toggle(const std::string& name, bool& variable, const std::string& help, OptionTraits traits = {});
  /// One of several words, stored as the `value` of the same index.
  template <typename T>
  Option& choice(const std::string& name, T& variable, const std::vector<std::pair<std::string, T>>& choices,
                 const std::string& help, OptionTraits traits = {});
  Option& choice(const std::string& name, std::string& variable, const std::vector<std::string>& choices,
                 const std::string& help, OptionTraits traits = {});
  /// One of several words, by their index; get() gives the number of words for a value that is none.
  Option& choice(const std::string& name, const std::vector<std::string>& words,
                 std::function<void(size_t)> set, std::function<size_t()> get, const std::string& help,
                 OptionTraits traits = {});
  /// The operands: arguments without an option name. At most one such entry in a table.
  Option& operands(const std::string& placeholder, std::vector<std::string>& variable,
                   const std::string& help);

  /// These options have no effect while the option `other`, declared before as they are, shows one of
  /// `values`: then it is an error to give one another value than it has anyway.
  void without_effect(const std::vector<std::string>& names, const std::string& other,
                      const std::vector<std::string>& values);

  const std::vector<Option>& options() const { return options_; }
  /// Throws OptionError if a variable has a value that its option does not accept; texts are not checked.
  void check() const;
  /// Null if there is none of that name.
  const Option* find(const std::string& name) const;

 private:
  Option& add(Option option);

  std::vector<Option> options_;
  std::string group_ = "Options";
  std::string section_;
};

template <typename T>
Option& OptionTable::choice(const std::string& name, T& variable,
                            const std::vector<std::pair<std::string, T>>& choices, const std::string& help,
                            OptionTraits traits) {
  std::vector<std::string> words;
  for (const auto& [word, value] : choices) words.push_back(word);
  const auto set = [&variable, choices](size_t index) { variable = choices[index].second; };
  const auto get = [&variable, choices]() {
    size_t index = 0;
    while (index < choices.size() && choices[index].second != variable) ++index;
    return index;
  };
  return choice(name, words, set, get, help, traits);
}

}  // namespace ventris
