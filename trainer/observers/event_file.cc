// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/event_file.h"

#include <array>
#include <bit>

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

std::string frame(const Message& message) {
  const std::string& data = message.bytes();
  Message head;
  head.little_endian(data.size(), 8);
  const uint32_t of_head = masked_crc32c(head.bytes());
  Message tail;
  tail.little_endian(masked_crc32c(data), 4);
  return head.little_endian(of_head, 4).bytes() + data + tail.bytes();
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
  return frame(Message()
                   .add(kWallTime, event.time)
                   .add(kStep, static_cast<uint64_t>(event.step))
                   .add(kSummary, summary));
}

std::string event_file_begin(double time) {
  const Message session = Message().add(kStatus, kStart);
  return frame(Message().add(kWallTime, time).add(kFileVersion, std::string_view("brain.Event:2"))) +
         frame(Message().add(kWallTime, time).add(kStep, uint64_t{0}).add(kSessionLog, session));
}

}  // namespace ventris
