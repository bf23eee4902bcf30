// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ventris {

/// A page of `ventris help`: a section of the documentation (cmake/help_topics.cmake), in Markdown.
struct HelpTopic {
  std::string_view name;
  std::string_view title;
  std::string_view text;
};

/// In the order of the help text. The build writes its definition.
const std::vector<HelpTopic>& help_topics();

std::vector<std::string> help_topic_names();

/// A topic for a terminal of 80 characters: links without their addresses, rows of tables one below the
/// other; examples as they are.
std::string help_text_of(const HelpTopic& topic);

}  // namespace ventris
