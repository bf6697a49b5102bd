#include "tests/examples/transport/local_transport.h"

#include "tests/contract/transport_contract.h"

namespace ringpress::testing {
namespace {

struct Local {
  static std::unique_ptr<Transport> make(ring::transport::Reactor& reactor) {
    return examples::kLocalEntry.make(reactor, {}, "").value();
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Example, TransportContract, ::testing::Types<Local>);

}  // namespace
}  // namespace ringpress::testing
