// SPDX-License-Identifier: Apache-2.0
#include "data/text/decompressor.h"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <array>
#include <cstdint>
#include <new>

namespace ventris::data {

namespace {

// What `xz -9` and `zstd --ultra -22` need at most; more would let a small file exhaust the memory.
constexpr uint64_t kMaxMemory = uint64_t{144} << 20;
constexpr int kLargestZstdWindow = 27;  // bits: 128 MiB, as the program allows without --long
constexpr const char* kTooMuchMemory =
    "it needs more memory than any level of the program; compress it without a larger dictionary";

class GzipDecompressor final : public Decompressor {
 public:
  GzipDecompressor() {
    constexpr int kGzipWindow = 15 + 16;  // the largest window, and a gzip header
    if (inflateInit2(&stream_, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  ~GzipDecompressor() override { inflateEnd(&stream_); }

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
    if (code != Z_OK && code != Z_BUF_ERROR && code != Z_STREAM_END)
      step.fault = stream_.msg == nullptr ? "invalid data" : stream_.msg;
    return step;
  }

 private:
  z_stream stream_{};
};

class XzDecompressor final : public Decompressor {
 public:
  XzDecompressor() {
    if (lzma_stream_decoder(&stream_, kMaxMemory, 0) != LZMA_OK) throw std::bad_alloc();
  }
  ~XzDecompressor() override { lzma_end(&stream_); }

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
    } else if (code != LZMA_OK && code != LZMA_BUF_ERROR && code != LZMA_STREAM_END) {
      step.fault = code == LZMA_OPTIONS_ERROR ? "it uses filters that are not supported" : "invalid data";
    }
    return step;
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

class ZstdDecompressor final : public Decompressor {
 public:
  ZstdDecompressor() : context_(ZSTD_createDCtx()) {
    if (context_ == nullptr) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, kLargestZstdWindow);
  }
  ~ZstdDecompressor() override { ZSTD_freeDCtx(context_); }

  Step step(std::span<const unsigned char> in, std::span<char> out) override {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const size_t code = ZSTD_decompressStream(context_, &to, &from);
    Step step{.taken = from.pos, .written = to.pos, .ended = code == 0};
    if (ZSTD_isError(code) == 0) return step;
    if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation) throw std::bad_alloc();
    step.fault = ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge
                     ? kTooMuchMemory
                     : ZSTD_getErrorName(code);
    return step;
  }

 private:
  ZSTD_DCtx* context_;
};

template <typename T>
std::unique_ptr<Decompressor> make() {
  return std::make_unique<T>();
}

constexpr std::array<Compression, 4> kCompressions = {
    {{"gzip", "\x1f\x8b", make<GzipDecompressor>},
     {"xz", {"\xfd\x37zXZ\0", kLongestMagic}, make<XzDecompressor>},
     {"zstd", "\x28\xb5\x2f\xfd", make<ZstdDecompressor>},
     {"zstd", "\x50\x2a\x4d\x18", make<ZstdDecompressor>}}};

}  // namespace

std::span<const Compression> compressions() {
  return kCompressions;
}

}  // namespace ventris::data
