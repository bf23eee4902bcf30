// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/replica_check.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>

#include "backend/device/context.h"
#include "backend/device/error.h"
#include "comm/affinity.h"
#include "tests/support/thread_ranks.h"

namespace ventris {
namespace {

constexpr int64_t kSize = 1000;
const std::vector<std::string> kNames = {"parameters", "first moments", "second moments"};

/// The state of every rank of a job: three parts, equal at first.
class Job {
 public:
  explicit Job(int ranks) : ranks_(ranks) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::vector<std::vector<float>> state(kNames.size(), std::vector<float>(kSize));
    for (std::vector<float>& part : state) {
      for (float& value : part) value = normal(random);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      states_.push_back(state);
      contexts_.push_back(std::make_unique<Context>(ContextOptions{.threads = 1}));
    }
  }

  void flip(int rank, size_t part, size_t element, int bit) {
    uint32_t bits = 0;
    float& value = states_[static_cast<size_t>(rank)][part][element];
    std::memcpy(&bits, &value, sizeof(bits));
    bits ^= uint32_t{1} << bit;
    std::memcpy(&value, &bits, sizeof(bits));
  }

  /// The message of the error that all ranks threw, or "" where none did.
  std::string check() {
    const auto errors = ranks_.run([&](Communicator& communicator) {
      const auto rank = static_cast<size_t>(communicator.rank());
      std::vector<Replica> parts;
      for (size_t part = 0; part < kNames.size(); ++part) {
        parts.push_back({kNames[part], {states_[rank][part].data(), 1, kSize, kSize, DType::kF32}});
      }
      check_replicas(*contexts_[rank], communicator, 42, parts);
    });
    std::vector<std::string> messages;
    for (const std::exception_ptr& error : errors) messages.push_back(message_of(error));
    for (const std::string& message : messages) EXPECT_EQ(message, messages[0]);
    return messages[0];
  }

 private:
  static std::string message_of(const std::exception_ptr& thrown) {
    if (!thrown) return "";
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kRanksDisagree);
      return error.what();
    }
  }

  testing::ThreadRanks ranks_;
  std::vector<std::vector<std::vector<float>>> states_;  // by rank, part and element
  std::vector<std::unique_ptr<Context>> contexts_;
};

std::string named(int rank) {
  return fmt::format("{} on {}", rank, host_name());
}

TEST(Replicas, ThatAgreeAreLeftAlone) {
  for (const int ranks : {2, 3, 4}) {
    Job job(ranks);
    EXPECT_EQ(job.check(), "");
  }
}

TEST(Replicas, OneFlippedBitInOneRankIsFound200TimesOf200) {
  std::mt19937 random(5);
  int found = 0;
  for (int flip = 0; flip < 200; ++flip) {
    const int ranks = 2 + static_cast<int>(random() % 3);
    const int rank = static_cast<int>(random()) & 0x7FFFFFFF;
    const int flipped = rank % ranks;
    const size_t part = random() % kNames.size();
    const size_t element = random() % kSize;
    const int bit = static_cast<int>(random() % 32);
    Job job(ranks);
    job.flip(flipped, part, element, bit);
    const std::string message = job.check();
    const std::string what = fmt::format("rank {} of {}, {}, element {}, bit {}: {}", flipped, ranks,
                                         kNames[part], element, bit, message);
    EXPECT_NE(message.find("after step 42 "), std::string::npos) << what;
    EXPECT_NE(message.find(kNames[part]), std::string::npos) << what;
    for (size_t other = 0; other < kNames.size(); ++other) {
      EXPECT_EQ(message.find(kNames[other]) != std::string::npos, other == part) << what;
    }
    const std::string words =
        ranks == 2 ? "no majority of ranks agrees on the " + kNames[part]
                   : fmt::format("rank {} holds other {} than the majority", named(flipped), kNames[part]);
    found += message.find(words) != std::string::npos ? 1 : 0;
    EXPECT_NE(message.find(words), std::string::npos) << what;
    for (int each = 0; each < ranks; ++each) EXPECT_NE(message.find(named(each)), std::string::npos) << what;
  }
  EXPECT_EQ(found, 200);
}

TEST(Replicas, WithoutAMajorityAreAllNamed) {
  Job two(2);
  two.flip(1, 2, 9, 4);
  EXPECT_NE(two.check().find("no majority of ranks agrees on the second moments"), std::string::npos);
  Job four(4);  // two against two
  four.flip(1, 0, 9, 4);
  four.flip(2, 0, 9, 4);
  EXPECT_NE(four.check().find("no majority of ranks agrees on the parameters"), std::string::npos);
}

}  // namespace
}  // namespace ventris
