// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "backend/device/context.h"

namespace ventris {

/// Copies between host memory and memory of the context's device, after all work enqueued before. On the CPU
/// both are the same memory.

/// Returns when `host` may be overwritten.
void copy_to_device(Context& context, void* device, const void* host, size_t bytes);
/// Returns when `host` holds the bytes.
void copy_to_host(Context& context, void* host, const void* device, size_t bytes);
/// Waits for all work enqueued in the context.
void synchronize(Context& context);

/// The contents of a device tensor in host memory: the tensor itself on the CPU, otherwise a contiguous copy.
class HostCopy {
 public:
  HostCopy(Context& context, ConstTensor device);
  /// For a tensor in host memory: the tensor itself.
  explicit HostCopy(ConstTensor host) : view_(host) {}
  ConstTensor view() const { return view_; }

 private:
  std::vector<char> copy_;
  ConstTensor view_;
};

/// Host memory that the device reads or writes asynchronously (page-locked on CUDA), zeroed. Only one copy at
/// a time: the host may access the memory, or start the next copy, only after the previous one is complete.
class HostBuffer {
 public:
  /// Throws Error(kUnavailable) naming the requested size.
  HostBuffer(Context& context, size_t bytes);
  ~HostBuffer();
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  char* data() { return data_; }
  const char* data() const { return data_; }
  size_t size() const { return size_; }
  /// Enqueues the copy of the first `bytes` to memory of the device.
  void send(void* device, size_t bytes);
  /// Enqueues the copy of `bytes` of device memory to the start of this memory.
  void receive(const void* device, size_t bytes);
  void wait_until_done();

 private:
  void check_room(size_t bytes) const;

  Context& context_;
  size_t size_;
  char* data_ = nullptr;
  void* done_ = nullptr;  // event
};

/// Host memory that the device reads asynchronously, with its copy on the device.
class StagingBuffer {
 public:
  /// Throws Error(kUnavailable) naming the requested size.
  StagingBuffer(Context& context, size_t bytes);
  ~StagingBuffer();
  StagingBuffer(const StagingBuffer&) = delete;
  StagingBuffer& operator=(const StagingBuffer&) = delete;

  char* host() { return host_.data(); }
  /// The same address as host() on the CPU.
  char* device() { return device_; }
  size_t size() const { return host_.size(); }
  /// Enqueues the copy of the first `bytes` to the device. The host memory must not change before
  /// wait_until_sent().
  void send(size_t bytes) { host_.send(device_, bytes); }
  void wait_until_sent() { host_.wait_until_done(); }

 private:
  Context& context_;
  HostBuffer host_;
  char* device_ = nullptr;
};

}  // namespace ventris
