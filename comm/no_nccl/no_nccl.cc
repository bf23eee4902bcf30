// SPDX-License-Identifier: Apache-2.0
#include "backend/device/context.h"
#include "backend/device/error.h"
#include "comm/communicator.h"
#include "comm/nccl_library.h"

namespace ventris {

std::unique_ptr<Communicator> make_device_communicator(Communicator& control, Context& context) {
  VENTRIS_CHECK(context.device() == Device::kCpu || control.size() == 1,
                "{} ranks compute on {} in a program built without NCCL", control.size(),
                name_of(context.device()));
  return nullptr;
}

std::string nccl_library() {
  return "no";
}

std::string loaded_nccl() {
  return "no";
}

std::string nccl_unavailable_reason() {
  return "this program was built without NCCL";
}

}  // namespace ventris
