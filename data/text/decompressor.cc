// SPDX-License-Identifier: Apache-2.0
#include "data/text/decompressor.h"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>

namespace ventris::data {

namespace {

constexpr int kGzipWindow = 15 + 16;  // of inflateInit2: the largest window, and a gzip header

class GzipDecompressor final : public Decompressor {
 public:
  GzipDecompressor() {
    if (inflateInit2(&stream_, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  ~GzipDecompressor() override { inflateEnd(&stream_); }
  GzipDecompressor(const GzipDecompressor&) = delete;
  GzipDecompressor& operator=(const GzipDecompressor&) = delete;

  Step step(std::span<const unsigned char> in, std::span<char> out) override {
    stream_.next_in = const_cast<unsigned char*>(in.data());
    stream_.avail_in = static_cast<unsigned>(in.size());
    stream_.next_out = reinterpret_cast<unsigned char*>(out.data());
    stream_.avail_out = static_cast<unsigned>(out.size());
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) throw std::bad_alloc();
    Step step{.taken = in.size() - stream_.avail_in,
              .written = out.size() - stream_.avail_out,
              .ended = code == Z_STREAM_END};
    if (code != Z_OK && code != Z_BUF_ERROR && code != Z_STREAM_END) {
      step.fault = stream_.msg == nullptr ? "invalid data" : stream_.msg;
    }
    return step;
  }
  void restart() override { inflateReset(&stream_); }

 private:
  z_stream stream_{};
};

// What `xz -9` and `zstd --ultra -22` need at most; more would let a small file exhaust the memory.
constexpr uint64_t kMaxMemory = uint64_t{144} << 20;
constexpr const char* kTooMuchMemory =
    "it needs more memory than any level of the program; compress it without a larger dictionary";

class XzDecompressor final : public Decompressor {
 public:
  XzDecompressor() { restart(); }
  ~XzDecompressor() override { lzma_end(&stream_); }
  XzDecompressor(const XzDecompressor&) = delete;
  XzDecompressor& operator=(const XzDecompressor&) = delete;

  Step step(std::span<const unsigned char> in, std::span<char> out) override {
    stream_.next_in = in.data();
    stream_.avail_in = in.size();
    stream_.next_out = reinterpret_cast<unsigned char*>(out.data());
    stream_.avail_out = out.size();
    const lzma_ret code = lzma_code(&stream_, LZMA_RUN);
    if (code == LZMA_MEM_ERROR) throw std::bad_alloc();
    Step step{.taken = in.size() - stream_.avail_in,
              .written = out.size() - stream_.avail_out,
              .ended = code == LZMA_STREAM_END};
    if (code == LZMA_MEMLIMIT_ERROR) {
      step.fault = kTooMuchMemory;
    } else if (code == LZMA_OPTIONS_ERROR) {
      step.fault = "it uses filters that are not supported";
    } else if (code != LZMA_OK && code != LZMA_BUF_ERROR && code != LZMA_STREAM_END) {
      step.fault = "invalid data";
    }
    return step;
  }
  void restart() override {
    if (lzma_stream_decoder(&stream_, kMaxMemory, 0) != LZMA_OK) throw std::bad_alloc();
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

class ZstdDecompressor final : public Decompressor {
 public:
  ZstdDecompressor() : context_(ZSTD_createDCtx()) {
    if (!context_) throw std::bad_alloc();
    constexpr int kLargestWindow = 27;  // bits: 128 MiB, as the program allows without --long
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kLargestWindow);
  }

  Step step(std::span<const unsigned char> in, std::span<char> out) override {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const size_t code = ZSTD_decompressStream(context_.get(), &to, &from);
    Step step{.taken = from.pos, .written = to.pos};
    if (ZSTD_isError(code) == 0) {
      step.ended = code == 0;
    } else if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation) {
      throw std::bad_alloc();
    } else if (ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge) {
      step.fault = kTooMuchMemory;
    } else {
      step.fault = ZSTD_getErrorName(code);
    }
    return step;
  }
  void restart() override { ZSTD_DCtx_reset(context_.get(), ZSTD_reset_session_only); }

 private:
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  std::unique_ptr<ZSTD_DCtx, Free> context_;
};

constexpr std::string_view kGzipMagic{"\x1f\x8b", 2};
constexpr std::string_view kXzMagic{
    "\xfd"
    "7zXZ\0",
    kLongestMagic};
constexpr std::string_view kZstdMagic{"\x28\xb5\x2f\xfd", 4};
// A frame of zstd without text, with which parallel writers begin: 0x184D2A50 to 0x184D2A5F, little-endian.
constexpr std::string_view kSkippableMagic{"\x50\x2a\x4d\x18", 4};

bool agree(std::string_view bytes, std::string_view magic) {
  const size_t size = std::min(bytes.size(), magic.size());
  return bytes.substr(0, size) == magic.substr(0, size);
}
bool may_be_skippable(std::string_view bytes) {
  return bytes.empty() || ((static_cast<unsigned char>(bytes[0]) & 0xF0) == 0x50 &&
                           agree(bytes.substr(1), kSkippableMagic.substr(1)));
}

template <const std::string_view& kMagic>
bool begins_with(std::string_view bytes) {
  return bytes.size() >= kMagic.size() && agree(bytes, kMagic);
}
template <const std::string_view& kMagic>
bool may_begin_with(std::string_view bytes) {
  return agree(bytes, kMagic);
}

template <typename T>
std::unique_ptr<Decompressor> make_decompressor() {
  return std::make_unique<T>();
}

constexpr std::array<Compression, 3> kCompressions = {{
    {"gzip", begins_with<kGzipMagic>, may_begin_with<kGzipMagic>, make_decompressor<GzipDecompressor>},
    {"xz", begins_with<kXzMagic>, may_begin_with<kXzMagic>, make_decompressor<XzDecompressor>},
    {"zstd",
     [](std::string_view bytes) {
       return begins_with<kZstdMagic>(bytes) ||
              (bytes.size() >= kSkippableMagic.size() && may_be_skippable(bytes));
     },
     [](std::string_view bytes) { return agree(bytes, kZstdMagic) || may_be_skippable(bytes); },
     make_decompressor<ZstdDecompressor>},
}};

}  // namespace

std::span<const Compression> compressions() {
  return kCompressions;
}

}  // namespace ventris::data
