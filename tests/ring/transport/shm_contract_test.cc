#include "ring/transport/shm/factory.h"
#include "tests/contract/transport_contract.h"

namespace ringpress::testing {
namespace {

template <bool reads_process>
struct ShmMaker {
  static std::unique_ptr<Transport> make(ring::transport::Reactor& reactor) {
    return ring::transport::shm::make_shm_transport(reactor, {2, reads_process}).value();
  }
};

using ShmMakers = ::testing::Types<ShmMaker<true>, ShmMaker<false>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Shm, TransportContract, ShmMakers);

}  // namespace
}  // namespace ringpress::testing
