// The root's side of the bootstrap: a thread that waits for every rank, compares what they say, and
// gives all of them the same answer. It ends when all have it or the timeout has passed, and keeps
// nothing of the process that started it.
#ifndef RING_BOOTSTRAP_RENDEZVOUS_H_
#define RING_BOOTSTRAP_RENDEZVOUS_H_

#include <memory>
#include <string>

#include "ring/bootstrap/unique_id.h"
#include "ring/factory.h"
#include "ring/transport/common/socket.h"
#include "ringpress/internal/rendezvous.h"

namespace ringpress::ring::bootstrap {

/// See prepare_rendezvous() in ring/factory.h.
Result<std::unique_ptr<ringpress::Rendezvous>> prepare_rendezvous(const AddressChoice& address,
                                                                  const std::string& extra_secret,
                                                                  Listens listens);

/// Serves at a socket that listens already.
Status serve_at(const UniqueId& id, transport::Fd listener, const std::string& extra_secret,
                const ServeOptions& options);

}  // namespace ringpress::ring::bootstrap

#endif  // RING_BOOTSTRAP_RENDEZVOUS_H_
