// SPDX-License-Identifier: Apache-2.0
#include "backend/device/transfer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "backend/device/device_cuda.h"
#include "backend/device/error.h"
#include "backend/device/has_cuda.h"
#include "backend/device/transfer_cuda.h"

namespace ventris {
namespace {

constexpr std::align_val_t kHostAlignment{128};

char* allocate_host(size_t bytes) {
  void* memory = ::operator new(bytes, kHostAlignment, std::nothrow);
  if (memory == nullptr) fail(ExitCode::kUnavailable, "cannot allocate {} bytes of host memory", bytes);
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

HostBuffer::HostBuffer(Context& context, size_t bytes)
    : context_(context), size_(std::max<size_t>(bytes, 1)) {
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) {
      using Memory = std::unique_ptr<char, void (*)(char*)>;
      Memory pinned(allocate_pinned_cuda(size_), [](char* memory) { free_pinned_cuda(memory); });
      done_ = make_event_cuda();
      data_ = pinned.release();
      return;
    }
  }
  data_ = allocate_host(size_);
}

HostBuffer::~HostBuffer() {
  if constexpr (kHasCuda) {
    if (context_.device() == Device::kCuda) {
      free_event_cuda(done_);
      free_pinned_cuda(data_);  // waits for a pending copy
      return;
    }
  }
  ::operator delete(data_, kHostAlignment);
}

void HostBuffer::check_room(size_t bytes) const {
  VENTRIS_CHECK(bytes <= size_, "{} bytes to copy in a buffer of {}", bytes, size_);
}

void HostBuffer::send(void* device, size_t bytes) {
  check_room(bytes);
  if constexpr (kHasCuda) {
    if (context_.device() == Device::kCuda) return send_cuda(context_, device, data_, bytes, done_);
  }
  if (device != data_) std::memcpy(device, data_, bytes);
}

void HostBuffer::receive(const void* device, size_t bytes) {
  check_room(bytes);
  if constexpr (kHasCuda) {
    if (context_.device() == Device::kCuda) return receive_cuda(context_, data_, device, bytes, done_);
  }
  std::memcpy(data_, device, bytes);
}

void HostBuffer::wait_until_done() {
  if constexpr (kHasCuda) {
    if (context_.device() == Device::kCuda) wait_for_event_cuda(done_);
  }
}

StagingBuffer::StagingBuffer(Context& context, size_t bytes)
    : context_(context), host_(context, bytes), device_(host_.data()) {
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) device_ = allocate_cuda(host_.size(), "batches");
  }
}

StagingBuffer::~StagingBuffer() {
  if constexpr (kHasCuda) {
    if (context_.device() == Device::kCuda) free_cuda(device_);  // waits for pending copies
  }
}

}  // namespace ventris
