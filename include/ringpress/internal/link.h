// A link: a connection between two processes that share nothing but a handle, which one of them
// gave the other. Messages go one way, from the side that connected to the side that listened, and
// match in order: the k-th irecv receives the k-th isend. Its shape is that of ncclNet.
//
// Threads: one thread at a time may use a link, a listener or a connector; different ones do not
// know of each other. No call blocks.
#ifndef RINGPRESS_INTERNAL_LINK_H_
#define RINGPRESS_INTERNAL_LINK_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "ringpress/internal/address_choice.h"
#include "ringpress/internal/buffer.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/transport.h"

namespace ringpress {

/// Where a listener is, and the secret that it shares with whoever it gives this to.
using LinkHandle = std::array<std::byte, 128>;

/// Messages that may be under way on one link, at either end.
inline constexpr std::size_t kMaxLinkRequests = 64;

struct LinkOptions {
  AddressChoice address;      // To listen on.
  std::string extra_secret;   // Mixed into the secret of the handle; the same on both sides.
  bool is_encrypted = false;  // The same on both sides.
  std::chrono::milliseconds timeout{600000};  // For connecting.
  int sockets = 2;                            // Of a link; the listener decides for both sides.
  std::string congestion;  // Of what the connector sends, by its options: as in MeshOptions.
};

/// The end that connected.
class SendLink {
 public:
  virtual ~SendLink() = default;
  /// Starts sending `payload`, which must stay unchanged until test() says done. Null, and nothing
  /// has happened, while kMaxLinkRequests are under way.
  virtual Result<Request*> isend(ConstBuffer payload) = 0;
  /// Moves bytes. A request that is done, or has failed, is given back with that and must not be
  /// used again.
  virtual Result<Completion> test(Request* request) = 0;
};

/// The end that listened.
class ReceiveLink {
 public:
  virtual ~ReceiveLink() = default;
  /// Starts receiving a message of at most into.bytes. Null, and nothing has happened, while
  /// kMaxLinkRequests are under way.
  virtual Result<Request*> irecv(Buffer into) = 0;
  /// As SendLink::test(). Completion::view is what came.
  virtual Result<Completion> test(Request* request) = 0;
};

/// Opens a link to the place that a handle names.
class LinkConnector {
 public:
  virtual ~LinkConnector() = default;
  /// Null: not yet, call again. After a link or an error there is nothing more to call.
  virtual Result<std::unique_ptr<SendLink>> connect() = 0;
};

/// Waits for links, any number of them, at an address of its own.
class LinkListener {
 public:
  virtual ~LinkListener() = default;
  virtual const LinkHandle& handle() const = 0;
  /// The next link that was opened, or null: call again. Who does not know the secret is dropped.
  /// kTimeout when nobody has come for so long.
  virtual Result<std::unique_ptr<ReceiveLink>> accept() = 0;
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_LINK_H_
