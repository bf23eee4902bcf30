// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ventris {

/// The pages of launch/pages with their styles and scripts, as cmake/embed_pages.cmake compiles them in.
extern const char* const kReportPage;
extern const char* const kAttentionPage;

/// The page with the data for its scripts: one self-contained HTML file, ASCII only, that needs no network.
/// Text in the data is shown literally, never interpreted as markup; bytes that are not UTF-8 become U+FFFD.
std::string page_with(const char* page, const nlohmann::ordered_json& data);

}  // namespace ventris
