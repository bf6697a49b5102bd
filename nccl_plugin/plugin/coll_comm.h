// The nodes of one NCCL communicator over one network device, as one rank each.
//
// NCCL's progress thread serves all channels of its communicator, so all_reduce() only enqueues and
// test() only looks at a flag. Calls take turns in two workers: while one waits for its last bytes,
// the next is already being encoded and sent.
#ifndef NCCL_PLUGIN_PLUGIN_COLL_COMM_H_
#define NCCL_PLUGIN_PLUGIN_COLL_COMM_H_

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "nccl_plugin/plugin/coll_decisions.h"
#include "nccl_plugin/plugin/coll_worker.h"
#include "nccl_plugin/plugin/registered_memory.h"
#include "nccl_plugin/session/end_report.h"
#include "nccl_plugin/session/live/live_report.h"
#include "nccl_plugin/session/mesh_communicator.h"

namespace ringpress::nccl_plugin::plugin {

class CollComm : public Object {
 public:
  static constexpr ObjectKind kKind = ObjectKind::kCollNetComm;
  using Communicators = std::array<std::unique_ptr<MeshCommunicator>, kCollWorkers>;

  CollComm(Communicators communicators, const Settings& settings);
  /// Gives up what is under way, and the other nodes hear it. Writes the statistics of all workers,
  /// which the exit of the process does, too.
  ~CollComm();
  CollComm(const CollComm&) = delete;
  CollComm& operator=(const CollComm&) = delete;

  /// Starts the workers' threads: Code::kSystem where there are no more.
  Status start();
  /// From here on it is used: all nodes have agreed.
  void begin(TensorPart part);

  /// An error, which the other nodes hear, where this one has lost what they know of the tensors.
  Status check_events();
  /// Null, and nothing has happened, while all requests are in use. One thread at a time; the same
  /// one for test().
  CollRequest* all_reduce(const CollCall& call);

  /// True when the result is there; the request is free again then, and after an error.
  /// `*is_told` becomes true for a failure of the communicator unless it is the first that is
  /// returned.
  Result<bool> test(CollRequest* request, bool* is_told);

  /// Any thread, while another one is in all_reduce().
  RegisteredMemory& memory() { return memory_; }

  /// False in a process that was forked from the one that made it: its threads are not there.
  bool is_of_this_process() const;

  int nodes() const { return workers_[0]->communicator().size(); }

 private:
  void tell_unknown() const;
  std::optional<Statistics> statistics(ReportTime time) const;
  void write_report(ReportTime time);

  const pid_t process_;
  RegisteredMemory memory_{ObjectKind::kCollNetMemory};
  CollDecisions decisions_;
  const Settings settings_;
  std::string why_unused_;  // Where the settings send no call here; else empty.
  bool has_begun_ = false;
  bool is_failure_told_ = false;
  std::array<Statistics, kCollWorkers> before_;  // Of each worker when it began.
  std::array<CollRequest, kCollRequests> requests_;
  std::size_t next_request_ = 0;
  std::atomic<std::size_t> last_worker_{0};  // That of the last call.
  std::array<std::unique_ptr<CollWorker>, kCollWorkers> workers_;
  RunReports reports_;
};

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_COLL_COMM_H_
