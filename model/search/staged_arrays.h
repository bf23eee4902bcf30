// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "backend/device/error.h"
#include "backend/device/transfer.h"

namespace ventris {

/// Lists of numbers that the host creates for every step and the device reads: consecutive in a staging
/// buffer, so that one copy transfers all of them.
class StagedArrays {
 public:
  explicit StagedArrays(Context& context) : context_(context) {}

  /// Starts a set of arrays with `numbers` numbers in total; discards the previous set.
  void begin(size_t numbers) {
    const size_t bytes = numbers * sizeof(int32_t);
    if (!buffer_ || buffer_->size() < bytes) {
      synchronize(context_);  // pending work may read the old buffer
      const size_t room = std::max(bytes, buffer_ ? buffer_->size() * 3 / 2 : size_t{0});
      buffer_.reset();
      buffer_ = std::make_unique<StagingBuffer>(context_, room);
    } else {
      buffer_->wait_until_sent();
    }
    used_ = 0;
  }
  /// Adds an array and returns its address on the device after send().
  const int32_t* add(std::span<const int32_t> values) {
    const size_t offset = used_;
    VENTRIS_CHECK(offset + values.size_bytes() <= buffer_->size(), "{} bytes of arrays, room for {}",
                  offset + values.size_bytes(), buffer_->size());
    std::copy(values.begin(), values.end(), reinterpret_cast<int32_t*>(buffer_->host() + offset));
    used_ += values.size_bytes();
    return reinterpret_cast<const int32_t*>(buffer_->device() + offset);
  }
  void send() { buffer_->send(used_); }

 private:
  Context& context_;
  std::unique_ptr<StagingBuffer> buffer_;
  size_t used_ = 0;
};

}  // namespace ventris
