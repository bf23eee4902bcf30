// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/resume_signature.h"

#include <gtest/gtest.h>

#include "backend/device/error.h"

namespace ventris {
namespace {

std::string refusal(const std::string& theirs, const std::string& ours) {
  try {
    check_same_signature("c.h5", theirs, ours);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadConfiguration);
    return error.what();
  }
  return "none";
}

TEST(ResumeSignature, NamesTheOptionThatDiffers) {
  TrainOptions run;
  run.freeze = {"encoder/*", "embedding"};
  const std::string ours = resume_signature(run);
  EXPECT_EQ(option_in_signature(ours, "d-model"), "512");
  EXPECT_EQ(option_in_signature(ours, "freeze"), "encoder/* embedding");
  EXPECT_EQ(option_in_signature(ours, "max-steps"), "");
  EXPECT_EQ(refusal(ours, ours), "none");
  run.max_steps = 7;
  EXPECT_EQ(refusal(resume_signature(run), ours), "none");
  run.model.learned_positions = true;
  EXPECT_EQ(refusal(resume_signature(run), ours)
                .find("c.h5 was written with --positions learned, but this run has "
                      "paper. Give the same option"),
            0U);
  run = {};
  EXPECT_EQ(refusal(resume_signature(run), ours).find("c.h5 was written with --freeze none, but"), 0U);
  run.freeze = {"encoder/*", "embedding"};
  run.model.vocab_size = 7;
  EXPECT_NE(refusal(resume_signature(run), ours)
                .find("with vocab-size 7, but this run has 37000. Give the same corpus"),
            std::string::npos);
}

TEST(ResumeSignature, AnOptionThatAFileLacksHadItsDefault) {
  TrainOptions run;
  EXPECT_EQ(refusal("heads: 8\n", resume_signature(run)), "none");
  run.weight_decay = 0.25;
  EXPECT_EQ(refusal("heads: 8\n", resume_signature(run))
                .find("c.h5 was written with --weight-decay 0, but this run has 0.25"),
            0U);
  EXPECT_EQ(refusal("colour: red\n", resume_signature({}))
                .find("c.h5 was written with --colour red, but this run has no"),
            0U);
}

TEST(ResumeSignature, OfAnEarlierVersionIsNotComparedByDefaults) {
  const std::string theirs = "d_model: 512\nbatch_source_tokens: 25000\n";
  EXPECT_EQ(
      refusal(theirs, resume_signature({})).find("c.h5 is of a run that an earlier version of the program"),
      0U);
}

}  // namespace
}  // namespace ventris
