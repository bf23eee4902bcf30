// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device/transfer.h"

namespace ventris {

void copy_to_device_cuda(Context& context, void* device, const void* host, size_t bytes);
void copy_to_host_cuda(Context& context, void* host, const void* device, size_t bytes);
/// The rows of `device`, packed; returns when `host` holds them.
void copy_rows_to_host_cuda(Context& context, void* host, const ConstTensor& device);
void synchronize_cuda(Context& context);

/// Zeroed page-locked memory. Throws Error(kUnavailable) naming the requested size.
char* allocate_pinned_cuda(size_t bytes);
void free_pinned_cuda(char* memory) noexcept;
void* make_event_cuda();
void free_event_cuda(void* event) noexcept;
/// Enqueue the copy between device memory and page-locked memory, and then `event`.
void send_cuda(Context& context, void* device, const void* pinned, size_t bytes, void* event);
void receive_cuda(Context& context, void* pinned, const void* device, size_t bytes, void* event);
/// Waits for the event; returns immediately if it was never enqueued.
void wait_for_event_cuda(void* event);

}  // namespace ventris
