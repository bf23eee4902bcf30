// SPDX-License-Identifier: Apache-2.0
#include "data/io/file_format.h"

#include <gtest/gtest.h>

namespace ventris::data {
namespace {

TEST(FileFormat, IsNewerWhereItsVersionIsLaterThanThatOfTheProgram) {
  for (const char* newer :
       {"ventris-corpus 4", "ventris weights 3", "ventris weights 10", "ventris checkpoint 2",
        "ventris safetensors 3", "ventris config 2", "ventris metrics 2", "ventris best 2",
        "ventris status 2", "ventris probes 2", "ventris status 9223372036854775807"}) {
    EXPECT_TRUE(is_newer_format(newer)) << newer;
    EXPECT_THROW(refuse_newer_format(newer, "file"), NewerFormat) << newer;
  }
  for (const char* none :
       {"ventris-corpus 1", "ventris-corpus 2", "ventris-corpus 3", "ventris weights 1", "ventris weights 2",
        "ventris weights 0", "ventris weights -3", "ventris weights", "ventris weights ",
        "ventris weights 3x", "ventris weights 3 ", "ventris  weights 3",
        "ventris weights 92233720368547758080", "ventris others 3", "weights 3", "pt", "3", " 3", ""}) {
    EXPECT_FALSE(is_newer_format(none)) << none;
    EXPECT_NO_THROW(refuse_newer_format(none, "file")) << none;
  }
}

TEST(FileFormat, IsOneOfOursByItsKind) {
  for (const char* ours :
       {"ventris weights 1", "ventris weights 3", "ventris checkpoint 1", "ventris-corpus 3"})
    EXPECT_TRUE(is_format_of_ours(ours)) << ours;
  for (const char* other : {"ventris weights", "ventris others 1", "weights 1", "pt", ""})
    EXPECT_FALSE(is_format_of_ours(other)) << other;
}

TEST(FileFormat, ThatIsNewerIsRefusedWithBothVersions) {
  try {
    refuse_newer_format("ventris weights 7", "folder/w.h5");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadData);
    const std::string message = error.what();
    for (const char* part :
         {"folder/w.h5: ", "'ventris weights'", "version 7", "up to 2", "a newer ventris"}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
    }
  }
}

}  // namespace
}  // namespace ventris::data
