// The 128 bytes that name a listener of links.
//
//   0  magic "RRPL"      4  version (1)      6  sockets of a link, and 0x80 if it is encrypted
//   7  bytes of the address text
//   8  secret, 16 bytes                      24  address text of the listener, zero-padded
#ifndef RING_TRANSPORT_TCP_LINK_HANDLE_H_
#define RING_TRANSPORT_TCP_LINK_HANDLE_H_

#include <string>

#include "ringpress/internal/link.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/wire.h"

namespace ringpress::ring::transport::tcp {

inline constexpr int kMaxLinkSockets = 16;

struct LinkEndpoint {
  Secret secret{};
  int sockets = 1;
  bool is_encrypted = false;
  std::string address;
};

/// kInternal for what does not fit.
Result<LinkHandle> pack_handle(const LinkEndpoint& endpoint);
/// kInvalidArgument for bytes that pack_handle() did not make.
Result<LinkEndpoint> unpack_handle(const LinkHandle& handle);

}  // namespace ringpress::ring::transport::tcp

#endif  // RING_TRANSPORT_TCP_LINK_HANDLE_H_
