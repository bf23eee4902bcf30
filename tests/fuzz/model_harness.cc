// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "backend/device/context.h"
#include "backend/device/error.h"
#include "data/error.h"
#include "data/io/hdf5_reader.h"
#include "tests/fuzz/digests.h"
#include "tests/fuzz/harness.h"
#include "trainer/checkpoint/weights.h"

namespace ventris::fuzz {
namespace {

void read_model(std::string_view bytes) {
  static Context context(ContextOptions{.threads = 1});
  const InputFile file(bytes);
  {
    const data::Hdf5Reader reader(file.path());
    for (const std::string& name : reader.datasets("/")) {
      const std::vector<int64_t> dimensions = reader.dimensions(name);
      if (reader.file_offset(name) < 0 || reader.file_offset(name) > reader.file_bytes())
        throw std::logic_error("data outside of the file");
      reader.type(name);
    }
  }
  load_model(context, file.path(), DType::kF32);
}

}  // namespace

void run_model(std::string_view bytes) {
  try {
    read_model(bytes);
  } catch (const Error&) {
  } catch (const data::DataError&) {
  }
  read_model(with_right_digests(bytes));
}

}  // namespace ventris::fuzz
