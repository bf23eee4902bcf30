// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "backend/device/context.h"

/// The device on which a program tests operations: every program that links tests/backend/ops defines
/// these for its own.
namespace ventris::testing {

/// Known before there is a context, so that tests can be named where the device cannot be used.
Device test_device();
/// The context of all tests, made by the first call.
Context& test_context();
/// On the CPU one with another number of threads, which must give the same bits; on other devices the same.
Context& other_context();
/// Exactly `bytes` of the device's memory: what looks for accesses past the end (a sanitizer, the emulated
/// device) finds them.
void* allocate_on_test_device(size_t bytes);
void free_on_test_device(void* address);

}  // namespace ventris::testing
