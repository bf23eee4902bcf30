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
/// their field numbers are those of tensorboard/compat/proto: event.proto, summary.proto, tensor.proto,
/// tensor_shape.proto.

namespace ventris {

struct EventScalar {
  std::string tag;
  float value = 0.0F;
};

/// For the text plug-in, which shows Markdown.
struct EventText {
  std::string tag;
  std::string markdown;
};

struct EventImage {
  std::string tag;
  std::string description;  // Markdown; "" for none
  int64_t height = 0;
  int64_t width = 0;
  std::string png;  // in grey
};

struct Event {
  double time = 0.0;  // seconds since 1970, UTC
  int64_t step = 0;
  std::vector<EventScalar> scalars = {};
  std::vector<EventText> texts = {};
  std::vector<EventImage> images = {};
};

/// What the tags of late values begin with: those that are written after values of later steps.
inline constexpr std::string_view kLateTags = "valid_script/";

/// CRC-32C (Castagnoli) rotated right by 15 bits plus a constant.
uint32_t masked_crc32c(std::string_view bytes);

/// Frames with one message each.
std::string event_frame(const Event& event);
/// What a file begins with: the version of its messages, and, for readers that follow the run, that a start
/// begins and everything from `first_step` on is no longer valid.
std::string event_file_begin(double time, int64_t first_step);

/// The part of an event file with the values of steps up to a given one. It ends with values that are not
/// late.
struct EventFilePart {
  int64_t bytes = 0;       // 0 if there are none
  int64_t last_step = -1;  // with values that are not late; -1 if there are none
  int64_t file_bytes = 0;  // of the whole file
};

/// The part before the first values of a step after `last_step`, and before the first damaged frame. Steps in
/// a file do not decrease, but for those of late values, which stay where values that are not late follow
/// them: their own step does not tell when they were written. Reads the file in pieces. Throws
/// data::DataError.
EventFilePart find_events_up_to(const std::string& path, int64_t last_step);

}  // namespace ventris
