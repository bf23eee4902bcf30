// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/support/dropout_mask.h"

namespace ventris::testing {

/// Rows of packed sentences one after the other, from 0.
inline std::vector<int32_t> offsets_of(const std::vector<int>& lengths) {
  std::vector<int32_t> offsets = {0};
  for (const int length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

/// The formulas of backend/ops/attention.h, element by element in f64. Matrices are contiguous, heads *
/// d_head columns wide; what has no sentence stays zero.
struct AttentionReference {
  // Inputs. `dropout` has a position on the host.
  std::vector<double> query, key, value, d_out;
  std::vector<int32_t> query_offsets, key_offsets;
  int heads;
  int64_t d_head;
  bool causal;
  double scale;
  DropoutKey dropout;
  int64_t max_keys = 0;  // of the probabilities; 0: none are wanted

  // Results.
  std::vector<double> out = {}, d_query = {}, d_key = {}, d_value = {};
  std::vector<double> log_sum_exp = {};    // [heads, query rows]
  std::vector<double> probabilities = {};  // [query rows, heads * max_keys], before dropout

  void compute() {
    const int64_t width = heads * d_head;
    const int64_t query_rows = static_cast<int64_t>(query.size()) / width;
    out.assign(query.size(), 0.0);
    d_query = out;
    d_key.assign(key.size(), 0.0);
    d_value = d_key;
    log_sum_exp.assign(static_cast<size_t>(heads * query_rows), 0.0);
    probabilities.assign(static_cast<size_t>(query_rows * heads * max_keys), 0.0);
    for (size_t s = 0; s + 1 < query_offsets.size(); ++s) {
      for (int h = 0; h < heads; ++h) {
        for (int64_t t = query_offsets[s]; t < query_offsets[s + 1]; ++t) {
          const int64_t first = key_offsets[s];
          const int64_t keys = causal ? t - query_offsets[s] + 1 : key_offsets[s + 1] - first;
          row(t, first, keys, h);
        }
      }
    }
  }

 private:
  /// Query row t of a head, which sees `keys` keys from row `first` on.
  void row(int64_t t, int64_t first, int64_t keys, int head) {
    if (keys == 0) return;
    const int64_t width = heads * d_head;
    const auto query_rows = static_cast<int64_t>(query.size()) / width;
    const auto at = [&](int64_t r) { return static_cast<size_t>(r * width + head * d_head); };
    const auto dot = [&](const double* a, const double* b) {
      double sum = 0.0;
      for (int64_t c = 0; c < d_head; ++c) sum += a[c] * b[c];
      return sum;
    };
    const auto add = [&](double* to, double factor, const double* from) {
      for (int64_t c = 0; c < d_head; ++c) to[c] += factor * from[c];
    };
    std::vector<double> p(static_cast<size_t>(keys)), d_p(static_cast<size_t>(keys));
    double sum = 0.0;
    for (int64_t j = 0; j < keys; ++j)
      sum += p[static_cast<size_t>(j)] = std::exp(scale * dot(&query[at(t)], &key[at(first + j)]));
    log_sum_exp[static_cast<size_t>(head * query_rows + t)] = std::log(sum);
    double d = 0.0;
    for (int64_t j = 0; j < keys; ++j) {
      double& probability = p[static_cast<size_t>(j)];
      probability /= sum;
      if (j < max_keys) probabilities[static_cast<size_t>((t * heads + head) * max_keys + j)] = probability;
      const double mask = dropout_mask(dropout, t, j, head);
      add(&out[at(t)], mask * probability, &value[at(first + j)]);
      add(&d_value[at(first + j)], mask * probability, &d_out[at(t)]);
      d_p[static_cast<size_t>(j)] = mask * dot(&d_out[at(t)], &value[at(first + j)]);
      d += probability * d_p[static_cast<size_t>(j)];
    }
    for (int64_t j = 0; j < keys; ++j) {
      const double d_score = scale * p[static_cast<size_t>(j)] * (d_p[static_cast<size_t>(j)] - d);
      add(&d_query[at(t)], d_score, &key[at(first + j)]);
      add(&d_key[at(first + j)], d_score, &query[at(t)]);
    }
  }
};

}  // namespace ventris::testing
