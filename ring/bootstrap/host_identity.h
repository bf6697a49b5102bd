// Which host and machine this process is on, and which of its addresses to use.
#ifndef RING_BOOTSTRAP_HOST_IDENTITY_H_
#define RING_BOOTSTRAP_HOST_IDENTITY_H_

#include <array>
#include <cstddef>
#include <string>

#include "ringpress/internal/address_choice.h"
#include "ringpress/internal/status.h"

namespace ringpress::ring::bootstrap {

using HostHash = std::array<std::byte, 16>;

struct HostIdentity {
  /// Equal for processes that can share memory and local sockets: same kernel, host name and
  /// network namespace. A host id that was given stands for the first two.
  HostHash host{};
  /// Equal for processes that share processor cores: same kernel.
  HostHash machine{};
};

/// `host_id`: in place of NCCL_HOSTID; empty: that of the process, if it is set.
HostIdentity host_identity(const std::string& host_id);

/// The address, without a port, of the first interface that is chosen; IPv6 addresses of one link
/// only where there is no other. Without names: the interface of the default route, else any that
/// is up, else loopback. kInvalidArgument, with what there is, where nothing matches.
Result<std::string> interface_address(const AddressChoice& choice);

/// The address from which this host reaches `target` ("address:port").
Result<std::string> route_address(const std::string& target);

}  // namespace ringpress::ring::bootstrap

#endif  // RING_BOOTSTRAP_HOST_IDENTITY_H_
