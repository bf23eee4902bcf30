// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ventris::data {

/// Writes an npz file of stored entries without times, so that equal arrays give equal bytes. The file
/// appears under its name at commit().
class NpzWriter {
 public:
  explicit NpzWriter(const std::string& path);
  ~NpzWriter();
  NpzWriter(const NpzWriter&) = delete;
  NpzWriter& operator=(const NpzWriter&) = delete;

  /// A row-major array; `type` in the notation of NumPy.
  void add(const std::string& name, std::string_view type, std::span<const int64_t> shape, const void* data,
           size_t bytes);
  void commit();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ventris::data
