#include "ring/transport/tcp/factory.h"
#include "tests/contract/transport_contract.h"

namespace ringpress::testing {
namespace {

template <int sockets>
struct TcpMaker {
  static std::unique_ptr<Transport> make(ring::transport::Reactor& reactor) {
    return ring::transport::tcp::make_tcp_transport(reactor, {"127.0.0.1", sockets});
  }
};

using Makers = ::testing::Types<TcpMaker<1>, TcpMaker<2>, TcpMaker<5>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Tcp, TransportContract, Makers);

}  // namespace
}  // namespace ringpress::testing
