// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device/context.h"
#include "backend/device/profile.h"

namespace ventris {

/// The time that the device takes between two points of the context's stream, also of a captured graph, each
/// replay of which measures anew. Measures nothing on the CPU.
class Stopwatch {
 public:
  /// The context must outlive the object, and the object the graphs that hold its points. Its end waits for
  /// the stream: what the stream waits for, as other ranks, must arrive or be given up before.
  explicit Stopwatch(Context& context);

  /// The points, enqueued in this order. Either may be captured.
  void start();
  void stop();
  /// Between the points that were enqueued last; waits until the device has reached them. 0 on the CPU and
  /// before the first stop().
  double seconds();

 private:
  CudaTimelinePtr timeline_;  // null on the CPU
  bool stopped_ = false;
};

}  // namespace ventris
