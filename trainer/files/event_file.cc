// SPDX-License-Identifier: Apache-2.0
#include "trainer/files/event_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "data/files/file_io.h"

namespace ventris {
namespace {

// Wire types of protocol buffers (protobuf.dev/programming-guides/encoding).
constexpr uint32_t kVarint = 0;
constexpr uint32_t kFixed64 = 1;
constexpr uint32_t kBytes = 2;
constexpr uint32_t kFixed32 = 5;

// Event
constexpr uint32_t kWallTime = 1;
constexpr uint32_t kStep = 2;
constexpr uint32_t kFileVersion = 3;
constexpr uint32_t kSummary = 5;
constexpr uint32_t kSessionLog = 7;
// SessionLog, its status START
constexpr uint32_t kStatus = 1;
constexpr uint64_t kStart = 1;
// Summary, Summary.Value
constexpr uint32_t kValue = 1;
constexpr uint32_t kTag = 1;
constexpr uint32_t kSimpleValue = 2;
constexpr uint32_t kImage = 4;
constexpr uint32_t kTensor = 8;
constexpr uint32_t kMetadata = 9;
// Summary.Image, its colorspace grey
constexpr uint32_t kHeight = 1;
constexpr uint32_t kWidth = 2;
constexpr uint32_t kColorSpace = 3;
constexpr uint64_t kGrey = 1;
constexpr uint32_t kEncodedImage = 4;
// SummaryMetadata, its data class TENSOR; SummaryMetadata.PluginData
constexpr uint32_t kPluginData = 1;
constexpr uint32_t kDescription = 3;
constexpr uint32_t kDataClass = 4;
constexpr uint64_t kTensorClass = 2;
constexpr uint32_t kPluginName = 1;
// TensorProto, its type DT_STRING; TensorShapeProto; TensorShapeProto.Dim
constexpr uint32_t kDtype = 1;
constexpr uint64_t kString = 7;
constexpr uint32_t kShape = 2;
constexpr uint32_t kStringValue = 8;
constexpr uint32_t kDim = 2;
constexpr uint32_t kDimSize = 1;

constexpr size_t kHeadBytes = 12;  // of a frame: length, checksum
constexpr size_t kTailBytes = 4;
constexpr uint64_t kMaxEventBytes = uint64_t{64} << 20;  // far above what is written

/// A message under construction.
class Message {
 public:
  Message& add(uint32_t field, uint64_t value) {
    begin(field, kVarint);
    varint(value);
    return *this;
  }
  Message& add(uint32_t field, double value) {
    begin(field, kFixed64);
    return little_endian(std::bit_cast<uint64_t>(value), 8);
  }
  Message& add(uint32_t field, float value) {
    begin(field, kFixed32);
    return little_endian(std::bit_cast<uint32_t>(value), 4);
  }
  Message& add(uint32_t field, std::string_view bytes) {
    begin(field, kBytes);
    varint(bytes.size());
    bytes_.append(bytes);
    return *this;
  }
  Message& add(uint32_t field, const Message& message) {
    return add(field, std::string_view(message.bytes_));
  }
  const std::string& bytes() const { return bytes_; }

  Message& little_endian(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>((value >> (8 * i)) & 0xFF);
    return *this;
  }

 private:
  void begin(uint32_t field, uint32_t type) { varint((field << 3) | type); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7F) | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

// Of the polynomial 0x1EDC6F41, bits reversed (RFC 3720, appendix B.4).
constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
    table[i] = crc;
  }
  return table;
}();

std::string frame(const std::string& data) {
  Message head;
  head.little_endian(data.size(), 8);
  const uint32_t of_head = masked_crc32c(head.bytes());
  Message tail;
  tail.little_endian(masked_crc32c(data), 4);
  return head.little_endian(of_head, 4).bytes() + data + tail.bytes();
}

uint64_t number_at(std::string_view bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return value;
}

/// What of an event decides where it belongs.
struct EventHead {
  int64_t step = 0;
  bool has_values = false;
  bool is_late = false;
};

/// Reads a number from the front of the bytes; false if it does not end there.
bool take_varint(std::string_view& bytes, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

/// The first field of a message with that key; "" if the message does not begin with it.
std::string_view first_field(std::string_view bytes, uint32_t field) {
  uint64_t key = 0;
  uint64_t size = 0;
  const bool has = take_varint(bytes, key) && key == ((field << 3) | kBytes) && take_varint(bytes, size);
  return has ? bytes.substr(0, size) : std::string_view();
}

/// False for bytes that are no message.
bool read_head(std::string_view bytes, EventHead& head) {
  while (!bytes.empty()) {
    uint64_t key = 0;
    uint64_t number = 0;
    if (!take_varint(bytes, key)) return false;
    const uint64_t type = key & 7;
    uint64_t skipped = type == kFixed64 ? 8 : type == kFixed32 ? 4 : 0;
    if (type == kVarint || type == kBytes) {
      if (!take_varint(bytes, number)) return false;
      if (type == kBytes) skipped = number;
    } else if (type != kFixed64 && type != kFixed32) {
      return false;
    }
    if (skipped > bytes.size()) return false;
    if (key == ((kStep << 3) | kVarint)) head.step = static_cast<int64_t>(number);
    if (key == ((kSummary << 3) | kBytes)) {
      head.has_values = true;
      head.is_late = first_field(first_field(bytes.substr(0, skipped), kValue), kTag).starts_with(kLateTags);
    }
    bytes.remove_prefix(skipped);
  }
  return true;
}

Message metadata_of_text() {
  Message metadata;
  metadata.add(kPluginData, Message().add(kPluginName, std::string_view("text")));
  metadata.add(kDataClass, kTensorClass);
  return metadata;
}

}  // namespace

uint32_t masked_crc32c(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return std::rotr(~crc, 15) + 0xA282EAD8U;
}

std::string event_frame(const Event& event) {
  Message summary;
  for (const EventScalar& scalar : event.scalars) {
    summary.add(kValue, Message().add(kTag, std::string_view(scalar.tag)).add(kSimpleValue, scalar.value));
  }
  for (const EventText& text : event.texts) {
    Message tensor;
    tensor.add(kDtype, kString).add(kShape, Message().add(kDim, Message().add(kDimSize, uint64_t{1})));
    tensor.add(kStringValue, std::string_view(text.markdown));
    summary.add(kValue, Message()
                            .add(kTag, std::string_view(text.tag))
                            .add(kTensor, tensor)
                            .add(kMetadata, metadata_of_text()));
  }
  for (const EventImage& image : event.images) {
    Message picture;
    picture.add(kHeight, static_cast<uint64_t>(image.height)).add(kWidth, static_cast<uint64_t>(image.width));
    picture.add(kColorSpace, kGrey).add(kEncodedImage, std::string_view(image.png));
    Message value;
    value.add(kTag, std::string_view(image.tag)).add(kImage, picture);
    if (!image.description.empty())
      value.add(kMetadata, Message().add(kDescription, std::string_view(image.description)));
    summary.add(kValue, value);
  }
  return frame(Message()
                   .add(kWallTime, event.time)
                   .add(kStep, static_cast<uint64_t>(event.step))
                   .add(kSummary, summary)
                   .bytes());
}

std::string event_file_begin(double time, int64_t first_step) {
  const Message session = Message().add(kStatus, kStart);
  return frame(Message().add(kWallTime, time).add(kFileVersion, std::string_view("brain.Event:2")).bytes()) +
         frame(Message()
                   .add(kWallTime, time)
                   .add(kStep, static_cast<uint64_t>(first_step))
                   .add(kSessionLog, session)
                   .bytes());
}

EventFilePart find_events_up_to(const std::string& path, int64_t last_step) {
  const data::FileHandle file = data::open_to_read(path);
  struct stat status {};
  if (!file.valid() || ::fstat(file.fd(), &status) != 0) data::fail_opening(path, errno);
  EventFilePart part{.file_bytes = status.st_size};
  std::string bytes;
  for (int64_t at = 0;;) {
    const auto rest = static_cast<uint64_t>(part.file_bytes - at);
    if (rest < kHeadBytes + kTailBytes) return part;
    bytes.resize(kHeadBytes);
    data::read_all(file.fd(), bytes.data(), kHeadBytes, at, path);
    const uint64_t size = number_at(bytes, 0, 8);
    if (number_at(bytes, 8, 4) != masked_crc32c(std::string_view(bytes).substr(0, 8))) return part;
    if (size > kMaxEventBytes || size > rest - kHeadBytes - kTailBytes) return part;
    bytes.resize(size + kTailBytes);
    data::read_all(file.fd(), bytes.data(), static_cast<int64_t>(bytes.size()), at + int64_t{kHeadBytes},
                   path);
    const std::string_view data = std::string_view(bytes).substr(0, size);
    EventHead head;
    if (number_at(bytes, size, kTailBytes) != masked_crc32c(data) || !read_head(data, head)) return part;
    const bool has_values = head.has_values && !head.is_late;
    if (has_values && head.step > last_step) return part;
    at += static_cast<int64_t>(kHeadBytes + size + kTailBytes);
    if (!has_values) continue;
    part.bytes = at;
    part.last_step = head.step;
  }
}

}  // namespace ventris
