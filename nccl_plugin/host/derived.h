// What communicators have in common that are made of another one's ranks.
#ifndef NCCL_PLUGIN_HOST_DERIVED_H_
#define NCCL_PLUGIN_HOST_DERIVED_H_

#include <memory>

#include "nccl_plugin/host/comm.h"
#include "nccl_plugin/host/configuration.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/status.h"
#include "ringpress/nccl.h"

namespace ringpress::nccl_plugin::host {

/// A fresh handle that inherits from `parent` what `config` leaves open.
Result<std::shared_ptr<ncclComm>> make_child(const ncclComm& parent, const ncclConfig_t* config);
/// The same where not all of the parent's configuration is inherited.
Result<std::shared_ptr<ncclComm>> make_child(const ncclComm& parent, const Configuration& inherited,
                                             const ncclConfig_t* config);

/// What the ranks that stay have yet to send goes with them, and what they have tuned. Collective.
Status inherit(ncclComm& parent, Communicator& child);

/// The failure, after telling the user as ncclCommInitRank() does.
Status logged(const char* function, const Status& failure);

}  // namespace ringpress::nccl_plugin::host

#endif  // NCCL_PLUGIN_HOST_DERIVED_H_
