// SPDX-License-Identifier: Apache-2.0
#include "launch/search_page.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launch/page.h"
#include "trainer/files/json_value.h"

namespace ventris {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson node_json(const SearchNode& node, const std::string& piece) {
  OrderedJson object = {{"piece", piece},
                        {"parent", node.parent},
                        {"log_probability", node.log_probability},
                        {"score", node.score}};
  if (node.kept) object["kept"] = true;
  if (node.ended) object["ended"] = true;
  if (node.winner) object["winner"] = true;
  if (node.reference) object["reference"] = true;
  if (node.attention >= 0) object["attention"] = node.attention;
  return object;
}

}  // namespace

std::string search_page(const SearchPage& page) {
  OrderedJson steps = OrderedJson::array(), considered = steps;
  for (size_t step = 0; step < page.record.steps.size(); ++step) {
    OrderedJson nodes = OrderedJson::array();
    size_t shown_fallen = 0;
    for (size_t i = 0; i < page.record.steps[step].size(); ++i) {
      const SearchNode& node = page.record.steps[step][i];
      if (!node.kept && shown_fallen++ >= kShownFallen && !node.reference) continue;
      nodes.push_back(node_json(node, page.pieces[step][i]));
      nodes.back()["rank"] = i + 1;
    }
    steps.push_back(std::move(nodes));
    considered.push_back(page.record.steps[step].size());
  }
  OrderedJson attention = OrderedJson::array();
  for (const auto& layer : page.record.attention) {
    OrderedJson rows = OrderedJson::array();
    for (const std::vector<float>& row : layer) {
      OrderedJson weights = OrderedJson::array();
      for (const float weight : row) weights.push_back(std::round(1e4 * static_cast<double>(weight)) / 1e4);
      rows.push_back(std::move(weights));
    }
    attention.push_back(std::move(rows));
  }
  OrderedJson data = {{"model", page.model},
                      {"source", page.source},
                      {"translation", page.translation},
                      {"score", page.score},
                      {"beam_size", page.beam_size},
                      {"length_penalty", to_json_value<OrderedJson>(page.length_penalty)},
                      {"source_tokens", page.source_tokens},
                      {"steps", steps},
                      {"considered", considered},
                      {"attention", attention}};
  if (!page.reference_pieces.empty()) {
    data["reference"] = {{"text", page.reference},
                         {"pieces", page.reference_pieces},
                         {"log_probabilities", page.reference_tokens},
                         {"score", page.reference_score}};
  }
  return page_with(kSearchPage, data);
}

}  // namespace ventris
