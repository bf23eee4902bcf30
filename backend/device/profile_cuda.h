// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "backend/device/profile.h"

namespace ventris {

/// Time marks in the stream of a device, which must outlive the object.
CudaTimelinePtr make_timeline_cuda(CudaDevice& device);
/// Makes the marks 0 to `marks` - 1 ready to be recorded.
void prepare_cuda(CudaTimeline& timeline, size_t marks);
/// Marks the moment when the stream reaches this point; in a captured graph, when each replay reaches it.
/// Errors are reported by seconds_between_cuda().
void record_cuda(CudaTimeline& timeline, size_t mark) noexcept;
/// Waits for `end`.
double seconds_between_cuda(CudaTimeline& timeline, size_t begin, size_t end);

/// A range of NVTX of the calling thread, named "name", or "name index" if the index is not negative.
void push_range_cuda(const char* name, int index);
void pop_range_cuda() noexcept;

}  // namespace ventris
