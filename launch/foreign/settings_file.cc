// SPDX-License-Identifier: Apache-2.0
#include "launch/foreign/settings_file.h"

#include <fmt/core.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "backend/error.h"

namespace ventris {
namespace {

constexpr size_t kMaxQuoted = 60;

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

/// For a message: short, on one line, without control characters that a terminal would obey.
std::string in_quotes(const std::string& text) {
  std::string shown = text.substr(0, kMaxQuoted);
  std::replace_if(shown.begin(), shown.end(), is_control, '?');
  return "'" + shown + (text.size() > kMaxQuoted ? "..." : "") + "'";
}

/// Of what follows a map within an option, until it is refused.
constexpr int kMaxInnerDepth = 16;

/// Takes the events of the parser, which builds no tree: the depth is bounded before it can grow, and an
/// alias is refused where it stands, whatever it would expand to.
///
/// A map within an option is refused only behind the rest of the document, unless that is deep: yaml-cpp also
/// begins one in a list that is never closed, and reports the syntax error behind it.
class Collector : public YAML::EventHandler {
 public:
  explicit Collector(const std::string& origin) : origin_(origin) {}

  std::vector<ForeignSetting> take() { return std::move(settings_); }
  bool is_empty() const { return depth_ == 0 && !began_; }
  /// At the end of the document.
  void refuse_inner_map() const {
    if (inner_map_.empty()) return;
    refuse(inner_mark_,
           fmt::format("{} has options of its own; expected are those of Marian, on one level", inner_map_));
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (!inner_map_.empty()) return;
    refuse_anchor(mark, anchor);
    if (depth_ == 0) return;  // an empty document
    if (depth_ == 1 && !has_key_) refuse(mark, "a key is empty");
    has_key_ = depth_ > 1;
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "references ('*name') are not read; write the value where it is needed");
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                const std::string& value) override {
    if (!inner_map_.empty()) return;
    refuse_anchor(mark, anchor);
    if (std::any_of(value.begin(), value.end(), is_control))
      refuse(mark, fmt::format("{} has a control character", in_quotes(value)));
    if (depth_ == 0) refuse(mark, fmt::format("{} is no line of the form 'option: value'", in_quotes(value)));
    if (depth_ == 1 && !has_key_) return take_key(mark, value);
    settings_.back().values.push_back(value);
    has_key_ = depth_ > 1;
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    if (!inner_map_.empty()) return go_deeper();
    refuse_anchor(mark, anchor);
    if (depth_ != 1 || !has_key_) refuse(mark, "expected are options with a value or a list of values");
    depth_ = 2;
  }
  void OnSequenceEnd() override {
    if (!inner_map_.empty()) return go_back();
    depth_ = 1;
    has_key_ = false;
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    if (!inner_map_.empty()) return go_deeper();
    refuse_anchor(mark, anchor);
    if (depth_ > 0) {
      inner_map_ = settings_.empty() ? "a key" : in_quotes(settings_.back().key);
      inner_mark_ = mark;
      return go_deeper();
    }
    depth_ = 1;
    began_ = true;
  }
  void OnMapEnd() override {
    if (!inner_map_.empty()) return go_back();
    depth_ = 0;
  }

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& what) const {
    fail(ExitCode::kBadConfiguration, "{}:{}: as a configuration of Marian: {}", origin_, mark.line + 1,
         what);
  }

 private:
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != 0) refuse(mark, "anchors ('&name') are not read; write the value where it is needed");
  }
  void go_deeper() {
    if (++inner_depth_ > kMaxInnerDepth) refuse_inner_map();
  }
  void go_back() { --inner_depth_; }
  void take_key(const YAML::Mark& mark, const std::string& key) {
    const auto [first, is_new] = line_of_.emplace(key, mark.line + 1);
    if (!is_new) refuse(mark, fmt::format("{} is there already, at line {}", in_quotes(key), first->second));
    settings_.push_back({.key = key, .values = {}, .line = mark.line + 1});
    has_key_ = true;
  }

  const std::string& origin_;
  std::vector<ForeignSetting> settings_;
  std::map<std::string, int> line_of_;
  int depth_ = 0;          // 1 in the map, 2 in a list of it
  bool began_ = false;     // the map was there
  bool has_key_ = false;   // a value follows
  std::string inner_map_;  // the key of the map that is to be refused; empty: there was none
  YAML::Mark inner_mark_;
  int inner_depth_ = 0;  // from there on
};

}  // namespace

bool is_yaml(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos || line[first] == '#') continue;
    line.remove_prefix(first);
    if (line.starts_with("---") || line.starts_with("%YAML")) return true;
    const size_t colon = line.find(':');
    const bool is_end = colon + 1 == line.size() || line.find_first_of(" \t\r", colon) == colon + 1;
    return colon != std::string_view::npos && is_end && colon < line.find('=');
  }
  return false;
}

std::vector<ForeignSetting> read_settings(std::string_view text, const std::string& origin) {
  Collector collector(origin);
  try {
    // yaml-cpp takes a quoted text that the file does not end for one that its last line ends.
    std::istringstream stream{std::string(text.substr(0, text.find_last_not_of("\r\n") + 1))};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(collector);
    collector.refuse_inner_map();
    Collector second(origin);
    if (parser.HandleNextDocument(second) && !second.is_empty())
      fail(ExitCode::kBadConfiguration, "{}: has several documents ('---'); expected is one", origin);
  } catch (const YAML::Exception& error) {
    collector.refuse(error.mark, "it is not YAML: " + error.msg);
  }
  return collector.take();
}

}  // namespace ventris
