// SPDX-License-Identifier: Apache-2.0
#include "launch/options/help_topics.h"

#include "launch/options/help_parts.h"
#include "launch/output.h"

namespace ventris {
namespace {

/// "[text](address)" as "text", and "**text**" as "text".
std::string plain(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t middle = text[i] == '[' ? text.find("](", i) : std::string_view::npos;
    const size_t end = middle == std::string_view::npos ? middle : text.find(')', middle);
    if (end != std::string_view::npos &&
        text.substr(i + 1, middle - i - 1).find('[') == std::string_view::npos) {
      result += plain(text.substr(i + 1, middle - i - 1));
      i = end;
    } else if (text.substr(i, 2) == "**") {
      ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::vector<std::string> cells_of(std::string_view row) {
  std::vector<std::string> cells;
  std::string cell;
  for (size_t i = 1; i < row.size(); ++i) {
    if (row[i] == '\\' && i + 1 < row.size() && row[i + 1] == '|') {
      cell += row[++i];
    } else if (row[i] == '|') {
      const size_t first = cell.find_first_not_of(' ');
      cells.push_back(
          first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') + 1 - first));
      cell.clear();
    } else {
      cell += row[i];
    }
  }
  return cells;
}

/// The first cell, and the others below it with the names of their columns, if there are several.
std::string row_text(const std::vector<std::string>& names, const std::vector<std::string>& cells) {
  std::string text = wrapped(plain(cells.front()), 2, 4);
  for (size_t i = 1; i < cells.size(); ++i) {
    if (cells[i].empty()) continue;
    const std::string name = cells.size() > 2 && i < names.size() ? names[i] + ": " : "";
    text += wrapped(plain(name + cells[i]), 6, 2);
  }
  return text;
}

}  // namespace

std::vector<std::string> help_topic_names() {
  std::vector<std::string> names;
  for (const HelpTopic& topic : help_topics()) names.emplace_back(topic.name);
  return names;
}

std::string help_text_of(const HelpTopic& topic) {
  std::string text = std::string(topic.title) + "\n" + std::string(topic.title.size(), '=') + "\n\n";
  std::string paragraph;
  std::vector<std::string> columns;  // of the table that is open
  bool is_example = false;
  const auto blank_line = [&] {  // at most one after another, also where a picture was
    if (!text.ends_with("\n\n")) text += "\n";
  };
  const auto end_paragraph = [&] {
    const bool is_item = paragraph.starts_with("- ");
    if (!paragraph.empty()) text += wrapped(plain(paragraph), 0, is_item ? 2 : 0);
    paragraph.clear();
  };
  for (const std::string& line : split_lines(std::string(topic.text) + "\n")) {
    if (!is_example && line.starts_with("![")) {
      end_paragraph();  // a picture, which a terminal does not show
    } else if (line.starts_with("```")) {
      end_paragraph();
      is_example = !is_example;
    } else if (is_example || line.starts_with("    ")) {
      end_paragraph();
      text += (is_example && !line.empty() ? "    " : "") + line + "\n";
    } else if (line.starts_with("|")) {
      const std::vector<std::string> cells = cells_of(line);
      if (columns.empty()) {
        end_paragraph();
        columns = cells;
      } else if (!cells.empty() && !line.starts_with("|-")) {
        text += row_text(columns, cells);
      }
    } else {
      columns.clear();
      if (line.empty() || line.starts_with("- ") || line.starts_with("#")) end_paragraph();
      if (line.empty()) {
        blank_line();
      } else if (line.starts_with("#")) {
        text += plain(line.substr(line.find(' ') + 1)) + "\n";
      } else {
        paragraph += (paragraph.empty() ? "" : " ") + line.substr(line.find_first_not_of(' '));
      }
    }
  }
  end_paragraph();
  if (text.ends_with("\n\n")) text.pop_back();
  return text;
}

}  // namespace ventris
