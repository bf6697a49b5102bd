// Which host and machine this process is on, and which of its addresses to use.
#ifndef RING_BOOTSTRAP_HOST_IDENTITY_H_
#define RING_BOOTSTRAP_HOST_IDENTITY_H_

#include <array>
#include <cstddef>
#include <string>

#include "ringpress/status.h"

namespace ringpress::ring::bootstrap {

using HostHash = std::array<std::byte, 16>;

struct HostIdentity {
  /// Equal for processes that can share memory and local sockets: same kernel, host name and
  /// network namespace. NCCL_HOSTID, when set, stands for the first two.
  HostHash host{};
  /// Equal for processes that share processor cores: same kernel.
  HostHash machine{};
};

HostIdentity host_identity();

/// The address, without a port, of the first interface that `names` allows: a comma-separated list
/// of prefixes; "=" before the list means whole names, "^" means all but these. Empty: the
/// interface of the default route, else any that is up, else loopback.
Result<std::string> interface_address(const std::string& names);

/// The address from which this host reaches `target` ("address:port").
Result<std::string> route_address(const std::string& target);

}  // namespace ringpress::ring::bootstrap

#endif  // RING_BOOTSTRAP_HOST_IDENTITY_H_
