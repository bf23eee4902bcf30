// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <iostream>
#include <memory>

#include "comm/nccl_library.h"
#include "data/io/hdf5_child.h"
#include "tests/comm/rank_test.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace ventris::testing {
namespace {

MpiEnvironment* the_environment = nullptr;
Communicator* the_world = nullptr;

/// What a rank other than the first prints: its failures.
class FailurePrinter : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::cout << "rank " << world().rank() << ": "
              << (result.file_name() != nullptr ? result.file_name() : "") << ":" << result.line_number()
              << ": " << result.message() << std::endl;
  }
};

}  // namespace

MpiEnvironment& environment() {
  return *the_environment;
}
Communicator& world() {
  return *the_world;
}

}  // namespace ventris::testing

int main(int argc, char** argv) {
  ventris::data::list_hdf5_if_asked(argc, argv);
  ventris::set_nccl_variables();
#if defined(__SANITIZE_ADDRESS__)
  __lsan_disable();  // MPI loads and unloads plug-ins as it starts, and their leaks have no name to suppress
#endif
  ventris::MpiEnvironment environment(&argc, &argv);
#if defined(__SANITIZE_ADDRESS__)
  __lsan_enable();
#endif
  const std::unique_ptr<ventris::Communicator> world = ventris::make_communicator(environment);
  ventris::testing::the_environment = &environment;
  ventris::testing::the_world = world.get();
  ::testing::InitGoogleTest(&argc, argv);
  if (world->rank() != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new ventris::testing::FailurePrinter);
  }
  const int result = RUN_ALL_TESTS();
#if defined(__SANITIZE_ADDRESS__)
  // Here, not at exit: when MPI has ended, what its unloaded plug-ins left can no longer be told from leaks
  // of ours.
  if (result == 0) __lsan_do_leak_check();
#endif
  return result;
}
