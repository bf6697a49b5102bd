// The workers of a communicator that is not the host library's: those of door A, where another
// library sends, and models lie on a device.
#ifndef NCCL_PLUGIN_GOSSIP_WORKERS_H_
#define NCCL_PLUGIN_GOSSIP_WORKERS_H_

#include <functional>
#include <memory>

#include "nccl_plugin/gossip/models.h"
#include "nccl_plugin/gossip/peers.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::gossip {

/// Of one gossip. One thread at a time.
class Workers {
 public:
  virtual ~Workers() = default;
  /// Where their models lie; once.
  virtual std::unique_ptr<Models> make_models() = 0;
  /// Runs body(peers), whose work is done in `stream`. kInvalidUsage: this thread is within a
  /// group, or the communicator has ended.
  virtual Status run(Stream stream, const std::function<Status(Peers&)>& body) = 0;
};

/// Makes the workers of a communicator, which the caller says is one.
using WorkersMaker = std::function<Result<std::unique_ptr<Workers>>(void* comm)>;

/// Of this process, by what knows such communicators. Any thread.
void set_workers_maker(WorkersMaker maker);
/// Empty if there is none.
WorkersMaker workers_maker();

}  // namespace ringpress::nccl_plugin::gossip

#endif  // NCCL_PLUGIN_GOSSIP_WORKERS_H_
