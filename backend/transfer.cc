#include "backend/transfer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "backend/device_cuda.h"
#include "backend/error.h"
#include "backend/has_cuda.h"
#include "backend/transfer_cuda.h"

namespace ventris {
namespace {

constexpr std::align_val_t kAlignment{128};

char* allocate_host(size_t bytes) {
  void* memory = ::operator new(bytes, kAlignment, std::nothrow);
  if (memory == nullptr)
    fail(ExitCode::kUnavailable, "cannot allocate {} bytes of memory for batches", bytes);
  std::memset(memory, 0, bytes);
  return static_cast<char*>(memory);
}

}  // namespace

void copy_to_device(Context& context, void* device, const void* host, size_t bytes) {
  if (bytes == 0) return;
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return copy_to_device_cuda(context, device, host, bytes);
  }
  if (device != host) std::memcpy(device, host, bytes);
}

void copy_to_host(Context& context, void* host, const void* device, size_t bytes) {
  if (bytes == 0) return;
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return copy_to_host_cuda(context, host, device, bytes);
  }
  if (device != host) std::memcpy(host, device, bytes);
}

void synchronize(Context& context) {
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) synchronize_cuda(context);
  }
}

HostCopy::HostCopy(Context& context, ConstTensor device) : view_(device) {
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda && device && device.size() != 0) {
      copy_.resize(static_cast<size_t>(device.size()) * size_of(device.dtype));
      copy_rows_to_host_cuda(context, copy_.data(), device);
      view_.data = copy_.data();
      view_.stride = device.cols;
    }
  }
}

StagingBuffer::StagingBuffer(Context& context, size_t bytes)
    : context_(context), size_(std::max<size_t>(bytes, 1)) {
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) {
      using Memory = std::unique_ptr<char, void (*)(char*)>;
      Memory pinned(allocate_pinned_cuda(size_), [](char* memory) { free_pinned_cuda(memory); });
      Memory device(allocate_cuda(size_, "batches"), [](char* memory) { free_cuda(memory); });
      sent_ = make_event_cuda();
      host_ = pinned.release();
      device_ = device.release();
      return;
    }
  }
  host_ = device_ = allocate_host(size_);
}

StagingBuffer::~StagingBuffer() {
  if constexpr (kHasCuda) {
    if (context_.device() == Device::kCuda) {
      free_cuda(device_);  // waits for copies under way
      free_event_cuda(sent_);
      free_pinned_cuda(host_);
      return;
    }
  }
  ::operator delete(host_, kAlignment);
}

void StagingBuffer::send(size_t bytes) {
  VENTRIS_CHECK(bytes <= size_, "{} bytes to send of a buffer of {}", bytes, size_);
  if constexpr (kHasCuda) {
    if (context_.device() == Device::kCuda) send_cuda(context_, device_, host_, bytes, sent_);
  }
}

void StagingBuffer::wait_until_sent() {
  if constexpr (kHasCuda) {
    if (context_.device() == Device::kCuda) wait_for_event_cuda(sent_);
  }
}

}  // namespace ventris
