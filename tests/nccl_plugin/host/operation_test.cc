// What a program asks for one call is there while the engine makes it, and only then.
#include "nccl_plugin/host/operation.h"

#include <gtest/gtest.h>

namespace ringpress::nccl_plugin::host {
namespace {

std::uint64_t seen_tag;

Status look(Communicator&, const Operation&) {
  const CallOptions* const options = CallsWithOptions::current();
  seen_tag = options == nullptr ? 0 : options->tag;
  return Status::ok();
}

TEST(Operation, IsMadeWithItsOptions) {
  auto id = make_unique_id({});
  ASSERT_TRUE(id.is_ok());
  Settings settings = parse_settings({}, nullptr);
  auto communicator = Communicator::create(id.value(), 0, 1, settings);
  ASSERT_TRUE(communicator.is_ok()) << communicator.status().message();
  Operation operation{look};
  operation.options.tag = 42;
  EXPECT_TRUE(run_operation(*communicator.value(), operation).is_ok());
  EXPECT_EQ(seen_tag, 42U);
  EXPECT_EQ(CallsWithOptions::current(), nullptr);
  operation.options.tag = 0;
  EXPECT_TRUE(run_operation(*communicator.value(), operation).is_ok());
  EXPECT_EQ(seen_tag, 0U);
}

}  // namespace
}  // namespace ringpress::nccl_plugin::host
