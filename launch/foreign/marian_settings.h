// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launch/foreign/marian_conversion.h"
#include "launch/foreign/settings_file.h"

namespace ventris {

/// A number of steps, target tokens or epochs: "10000u", "2Gt", "30e".
struct MarianPeriod {
  double value;
  char unit;  // u, t or e
};

/// The options of a configuration with Marian's defaults for those it leaves out, and a conversion under way.
/// All that read a value throw Error(kBadConfiguration), with file and line, if it has another type.
class MarianSettings {
 public:
  /// Throws for a name that Marian does not have.
  MarianSettings(MarianUse use, const std::vector<ForeignSetting>& given, std::string origin);

  bool is_given(const std::string& key) const { return given_.contains(key); }
  /// Whether the value is another than Marian's default.
  bool is_changed(const std::string& key) const;
  /// The values of a list, or the one value; without an empty one.
  std::vector<std::string> list(const std::string& key) const;
  std::string text(const std::string& key) const;  // those of a list with blanks between
  bool flag(const std::string& key) const;
  double number(const std::string& key) const;
  int64_t integer(const std::string& key) const;
  std::vector<double> numbers(const std::string& key) const;
  MarianPeriod period(const std::string& key) const;
  std::vector<MarianPeriod> periods(const std::string& key) const;

  /// An option of ours.
  void set(const std::string& ours, const std::string& value);
  void set(const std::string& ours, double value);
  void set(const std::string& ours, int64_t value);
  /// Remarks on option `key`. `settled_by`: as in ConversionRemark.
  void missing(const std::string& key, const std::string& why, const std::string& settled_by = "");
  void differs(const std::string& key, const std::string& how);
  [[noreturn]] void refuse(const std::string& key, const std::string& expected) const;

  /// Remarks on all options that have no rule.
  void remark_on_others(MarianUse use);
  Conversion take() { return std::move(conversion_); }
  Conversion& conversion() { return conversion_; }

 private:
  void take_task(const std::vector<ForeignSetting>& given);
  std::string place_of(const std::string& key) const;
  void remark(ConversionRemark::Kind kind, const std::string& key, const std::string& why,
              const std::string& settled_by);
  double number_in(const std::string& key, const std::string& text) const;
  MarianPeriod period_in(const std::string& key, std::string_view text) const;

  MarianUse use_;
  std::string origin_;
  std::map<std::string, ForeignSetting> given_;  // with those of --task, whose line is that of the task
  Conversion conversion_;
};

}  // namespace ventris
