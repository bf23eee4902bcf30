// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "launch/sentence_attention.h"

namespace ventris {

/// The maps for launch/pages/maps.js: of the cross-attention, the encoder and the decoder
/// the tokens of rows and columns, and of each layer and head the weights as text of two characters each.
nlohmann::ordered_json attention_groups(const SentenceAttention& attention);

/// The bytes of the weights in attention_groups().
size_t bytes_of_maps(const SentenceAttention& attention);

/// One self-contained HTML file with the heat maps, without libraries or network access. Text is shown
/// literally, never interpreted as markup. `model` is the name of its file.
std::string attention_page(const std::string& model, const SentenceAttention& attention);

}  // namespace ventris
