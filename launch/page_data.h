// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ventris {

/// The begin of every page, up to its title: nothing of it may come from the network.
inline constexpr const char* kPageBegin = R"html(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
)html";

/// What follows the data of every page: the end of its element, and the begin of the script, with `data`,
/// functions that make elements, and one that makes invisible characters of a text visible.
extern const char* const kPageBasics;

/// JSON for a script element of an HTML page: ASCII only, without a sequence that ends the element. Bytes
/// that are not UTF-8 become U+FFFD.
std::string page_data(const nlohmann::ordered_json& json);

}  // namespace ventris
