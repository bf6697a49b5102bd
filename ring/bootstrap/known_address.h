// A rendezvous at an address that all ranks know before: NCCL_COMM_ID. Rank 0 serves there when it
// makes its communicator, so the others may come long before it. The id has no secret of its own;
// several communicators may meet there, one after the other.
#ifndef RING_BOOTSTRAP_KNOWN_ADDRESS_H_
#define RING_BOOTSTRAP_KNOWN_ADDRESS_H_

#include <chrono>
#include <string>

#include "ring/bootstrap/unique_id.h"

namespace ringpress::ring::bootstrap {

/// `address`: "192.0.2.7:4711", "[fd00::7]:4711", or the name of a host in place of the number.
/// kInvalidArgument for anything else and for names that nobody knows. May ask a name server.
Result<UniqueId> known_address(const std::string& address);
/// True for what known_address() made.
bool is_known_address(const UniqueId& id);

/// Serves one communicator there, from a thread of its own. Waits some seconds for the port, which
/// the rendezvous before may still have.
Status serve_known_address(const UniqueId& id, const std::string& extra_secret,
                           std::chrono::milliseconds timeout);

}  // namespace ringpress::ring::bootstrap

#endif  // RING_BOOTSTRAP_KNOWN_ADDRESS_H_
