// The transports that a mesh is made of. A new one is a folder of transport/, a TransportKind and a
// row of the table.
#ifndef RING_TRANSPORTS_H_
#define RING_TRANSPORTS_H_

#include <memory>
#include <span>
#include <string>

#include "ring/factory.h"
#include "ring/transport/common/reactor.h"
#include "ringpress/internal/transport.h"

namespace ringpress::ring {

/// A transport of this library.
struct TransportEntry {
  TransportKind kind = TransportKind::kTcp;
  /// Another one does the same where this host does not have it.
  bool is_optional = false;
  /// It joins ranks of one host only.
  bool is_within_host = false;
  bool (*is_wanted)(const MeshOptions& options) = nullptr;
  /// `host`: the numeric address that this rank listens at. The reactor outlives the transport.
  Result<std::unique_ptr<Transport>> (*make)(transport::Reactor& reactor,
                                             const MeshOptions& options,
                                             const std::string& host) = nullptr;
};

/// In the order in which a pair of ranks prefers them. The last one is not optional and joins all.
std::span<const TransportEntry> transports();

}  // namespace ringpress::ring

#endif  // RING_TRANSPORTS_H_
