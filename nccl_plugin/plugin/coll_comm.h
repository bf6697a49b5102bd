// The nodes of one NCCL communicator over one network device, as one rank each, and the thread that
// all-reduces among them what NCCL's progress thread hands over.
//
// The progress thread serves all channels of its communicator: all_reduce() only enqueues and
// test() only looks at a flag. Neither locks, allocates or, while the worker is awake, calls the
// system.
#ifndef NCCL_PLUGIN_PLUGIN_COLL_COMM_H_
#define NCCL_PLUGIN_PLUGIN_COLL_COMM_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "nccl_plugin/plugin/tensor_book.h"
#include "ringpress/communicator.h"

namespace ringpress::nccl_plugin::plugin {

/// What NCCL hands over: host memory, which stays until test() says done. `send` and `receive` are
/// the same or apart.
struct CollCall {
  void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  DType dtype = DType::kFloat32;
};

class CollComm;

/// A call under way. Belongs to its CollComm.
struct CollRequest {
  CollComm* owner = nullptr;
  enum class State : std::uint8_t { kFree, kWaiting, kDone, kFailed };
  std::atomic<State> state{State::kFree};
  CollCall call;
  PiecewiseTensor tensor;
  bool starts_tensor = false;
  std::size_t first = 0;        // Of the tensor.
  std::size_t valid_count = 0;  // Of call.count: what lies behind is garbage.
  bool clears_staging = false;
};

/// What is known of NCCL's communicator.
struct CollIdentity {
  std::optional<std::uint64_t> comm_id;  // Where NCCL's version tells it.
  bool has_books = false;                // NCCL tells each node which tensors it reduces.
};

class CollComm {
 public:
  CollComm(std::unique_ptr<Communicator> communicator, const CollIdentity& identity);
  /// Gives up what is under way; the other nodes hear it.
  ~CollComm();
  CollComm(const CollComm&) = delete;
  CollComm& operator=(const CollComm&) = delete;

  /// Null, and nothing has happened, while all requests are in use. The failure of an earlier call
  /// once there is one. One thread at a time; the same one for test().
  Result<CollRequest*> all_reduce(const CollCall& call);

  /// True when the result is there; the request is free again then, and after an error.
  Result<bool> test(CollRequest* request);

  int nodes() const { return communicator_->size(); }

 private:
  static constexpr std::size_t kRequests =
      256;  // More than the 64 channels x 8 steps in groups of 8.

  void identify(CollRequest* request);
  void run();
  CollRequest* next();
  Status perform(CollRequest* request);
  void wake_worker();

  const std::unique_ptr<Communicator> communicator_;
  const CollIdentity identity_;
  std::shared_ptr<TensorBook> book_;  // Once it is known, if it ever is.
  std::array<CollRequest, kRequests> requests_;
  std::size_t next_request_ = 0;

  // The queue: the progress thread appends, the worker takes.
  std::array<CollRequest*, kRequests> queue_{};
  std::atomic<std::uint64_t> appended_{0};
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<std::uint32_t> worker_sleeps_{0};
  std::atomic<bool> closing_{false};
  Status failure_;  // Written by the worker before it sets a request's state to kFailed.
  std::thread worker_;
};

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_COLL_COMM_H_
