// SPDX-License-Identifier: Apache-2.0
#include "backend/device/profile.h"

#include <gtest/gtest.h>

#include "backend/device/error.h"

namespace ventris {
namespace {

Context& fresh_context() {
  static Context context(ContextOptions{});
  context.profile().clear();
  return context;
}

void measure_step(Context& context) {
  context.profile().begin_step();
  { const ProfileRange range(context, "first"); }
  for (int i = 0; i < 2; ++i) {
    const ProfileRange range(context, "second");
    const ProfileLayer layer(context, "layer", 0);
  }
  context.profile().end_step();
}

std::string message_of(void (*call)(Context&), Context& context) {
  try {
    call(context);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Profile, RangesOfOneNameAddUpOverSteps) {
  Context& context = fresh_context();
  for (int step = 0; step < 3; ++step) measure_step(context);
  EXPECT_EQ(context.profile().steps(), 3);
  const std::vector<Profile::Phase> phases = context.profile().phases();
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(phases[0].name, "first");
  EXPECT_EQ(phases[0].ranges, 3);
  EXPECT_EQ(phases[1].name, "second");
  EXPECT_EQ(phases[1].ranges, 6);
  EXPECT_GT(phases[1].seconds, 0.0);
  EXPECT_GE(context.profile().step_seconds(), phases[0].seconds + phases[1].seconds);
}

TEST(Profile, NothingIsMeasuredOutsideSteps) {
  Context& context = fresh_context();
  { const ProfileRange range(context, "before"); }
  measure_step(context);
  const double seconds = context.profile().step_seconds();
  {
    const ProfileRange range(context, "after");
    const ProfileRange nested(context, "nobody looks");
  }
  EXPECT_EQ(context.profile().phases().size(), 2U);
  EXPECT_EQ(context.profile().step_seconds(), seconds);
}

TEST(Profile, PhasesDoNotContainOneAnother) {
  Context& context = fresh_context();
  context.profile().begin_step();
  const auto nest = [](Context& c) {
    const ProfileRange outer(c, "outer");
    const ProfileRange inner(c, "inner");
  };
  const std::string message = message_of(nest, context);
  EXPECT_NE(message.find("\"inner\" begins inside the phase \"outer\""), std::string::npos) << message;
  context.profile().end_step();
  ASSERT_EQ(context.profile().phases().size(), 1U);
  EXPECT_EQ(context.profile().phases()[0].ranges, 1);
}

TEST(Profile, StepsBeginAndEndInTurn) {
  Context& context = fresh_context();
  const auto end = [](Context& c) { c.profile().end_step(); };
  EXPECT_NE(message_of(end, context).find("not begun"), std::string::npos);
  const auto begin = [](Context& c) { c.profile().begin_step(); };
  context.profile().begin_step();
  EXPECT_NE(message_of(begin, context).find("while another is measured"), std::string::npos);
  const auto look = [](Context& c) { static_cast<void>(c.profile().phases()); };
  EXPECT_NE(message_of(look, context).find("requested while"), std::string::npos);
  {
    const ProfileRange open(context, "open phase");
    EXPECT_NE(message_of(end, context).find("inside its phase \"open phase\""), std::string::npos);
  }
  context.profile().end_step();
  EXPECT_EQ(context.profile().steps(), 1);
}

TEST(Profile, ClearForgetsAnUnfinishedStep) {
  Context& context = fresh_context();
  measure_step(context);
  context.profile().begin_step();
  {
    const ProfileRange range(context, "cut short");
    context.profile().clear();
  }
  EXPECT_FALSE(context.profile().measuring());
  EXPECT_EQ(context.profile().steps(), 0);
  EXPECT_EQ(context.profile().step_seconds(), 0.0);
  EXPECT_TRUE(context.profile().phases().empty());
  measure_step(context);
  EXPECT_EQ(context.profile().phases().size(), 2U);
}

}  // namespace
}  // namespace ventris
