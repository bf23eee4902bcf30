// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// TensorBoard event files: TFRecord frames around messages of the type tensorboard.Event.
///
/// A frame is the length of its data (64 bits, little endian), the masked CRC-32C of these eight bytes, the
/// data, and its masked CRC-32C (tensorflow/core/lib/io/record_writer.h). The messages are written by hand;
/// their field numbers are those of tensorboard/compat/proto: event.proto, summary.proto.

namespace ventris {

struct EventScalar {
  std::string tag;
  float value = 0.0F;
};

struct Event {
  double time = 0.0;  // seconds since 1970, UTC
  int64_t step = 0;
  std::vector<EventScalar> scalars = {};
};

/// CRC-32C (Castagnoli) rotated right by 15 bits plus a constant.
uint32_t masked_crc32c(std::string_view bytes);

/// A frame with one message.
std::string event_frame(const Event& event);
/// What a file begins with: the version of its messages, and, for readers that follow the run, that a start
/// begins and no earlier value is valid any more.
std::string event_file_begin(double time);

}  // namespace ventris
