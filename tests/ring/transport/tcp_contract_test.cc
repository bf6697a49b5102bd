#include "ring/transport/tcp/factory.h"
#include "tests/contract/transport_contract.h"

namespace ringpress::testing {
namespace {

template <int sockets>
struct TcpOver {
  static std::unique_ptr<Transport> make(ring::transport::Reactor& reactor) {
    return ring::transport::tcp::make_tcp_transport(reactor, {"127.0.0.1", sockets});
  }
};

using TcpMakers = ::testing::Types<TcpOver<1>, TcpOver<2>, TcpOver<5>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Tcp, TransportContract, TcpMakers);

template <int sockets>
struct EncryptedOver : TcpOver<sockets> {
  static constexpr bool kIsEncrypted = true;
};

using EncryptedMakers = ::testing::Types<EncryptedOver<1>, EncryptedOver<3>>;
INSTANTIATE_TYPED_TEST_SUITE_P(EncryptedTcp, TransportContract, EncryptedMakers);

}  // namespace
}  // namespace ringpress::testing
