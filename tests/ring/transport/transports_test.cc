// The table of transports: what the mesh relies on.
#include "ring/transports.h"

#include <gtest/gtest.h>

#include <set>

#include "ring/mesh_impl.h"

namespace ringpress {
namespace {

TEST(Transports, TheLastOneJoinsAllRanksAndIsAlwaysThere) {
  const ring::TransportEntry& last = ring::transports().back();
  EXPECT_FALSE(last.is_optional);
  EXPECT_FALSE(last.is_within_host);
  ring::MeshOptions options;
  options.shared_memory = false;
  EXPECT_TRUE(last.is_wanted(options));
}

TEST(Transports, EachKindIsThereOnceAndMakesItself) {
  ring::transport::Reactor reactor;
  std::set<TransportKind> kinds;
  for (const ring::TransportEntry& entry : ring::transports()) {
    EXPECT_TRUE(kinds.insert(entry.kind).second);
    const auto made = entry.make(reactor, ring::MeshOptions{}, "127.0.0.1");
    ASSERT_TRUE(made.is_ok()) << made.status().message();
    EXPECT_EQ(made.value()->kind(), entry.kind);
  }
  EXPECT_EQ(kinds.size(), kTransportKinds);
}

TEST(Transports, ARankIsReachedByTheFirstThatHasAnAddress) {
  const ring::PeerEndpoint endpoint{{"", "one", "", "other"}, true};
  EXPECT_EQ(ring::preferred_transport(endpoint, 0), 1u);
  EXPECT_EQ(ring::preferred_transport(endpoint, 2), 3u);
  EXPECT_EQ(ring::preferred_transport(endpoint, 4), 4u);
}

}  // namespace
}  // namespace ringpress
