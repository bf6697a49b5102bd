// Every reason of a call that is not compressed has an explanation, and is found by its text.
#include "nccl_plugin/command/report/reasons.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "ringpress/internal/call_class.h"

namespace ringpress::nccl_plugin::command::report {
namespace {

constexpr auto kLastReason = static_cast<std::uint8_t>(ExactReason::kNonblocking);

TEST(Reasons, NoReasonLacksAnExplanation) {
  for (std::uint8_t i = 1; i <= kLastReason; ++i) {
    EXPECT_STRNE(explanation_of(static_cast<ExactReason>(i)).meaning, "") << int{i};
  }
  EXPECT_STREQ(explanation_of(ExactReason::kNone).meaning, "");
}

/// A reason that is added behind the last one has to be looked at here.
TEST(Reasons, TheLastOneIsKnown) {
  EXPECT_EQ(to_text({static_cast<ExactReason>(kLastReason + 1), 0, {}}), "unknown reason");
}

TEST(Reasons, AreFoundByTheirTexts) {
  for (std::uint8_t i = 1; i <= kLastReason; ++i) {
    const auto reason = static_cast<ExactReason>(i);
    if (reason == ExactReason::kCannotBegin) continue;
    for (const std::uint32_t number : {0U, 1U, 5U, 17U}) {
      const std::string text = to_text({reason, number, "q4:block=64,round=nearest"});
      EXPECT_EQ(find_reason(text), reason) << text;
    }
  }
}

TEST(Reasons, AClassOfCallsIsFoundByItsText) {
  for (std::size_t i = 0; i < kCallClassCount; ++i) {
    const std::string text = to_text({ExactReason::kNoGradient, static_cast<std::uint32_t>(i), {}});
    EXPECT_EQ(find_reason(text), ExactReason::kNoGradient) << text;
  }
}

TEST(Reasons, ATextThatIsNotKnownIsAnErrors) {
  EXPECT_EQ(find_reason("address in use"), std::nullopt);
  EXPECT_EQ(find_reason(""), std::nullopt);
  EXPECT_STREQ(explanation_of("address in use").meaning,
               explanation_of(ExactReason::kCannotBegin).meaning);
}

}  // namespace
}  // namespace ringpress::nccl_plugin::command::report
