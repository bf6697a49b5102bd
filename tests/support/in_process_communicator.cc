// Stands in for nccl_plugin/session/communicator.cc in tests of the doors: a Communicator between
// threads of one process, made of a meeting point and memcpy. It has no network, no codec and no
// planner, so a failing test points at the door. Strict where the real one is: ranks that call
// different things get kMismatch, and nobody waits longer than the timeout.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ringpress/internal/communicator.h"
#include "ringpress/internal/wire.h"
#include "tests/support/numbers.h"

namespace ringpress {
namespace {

using testing::read_number;
using testing::write_number;

/// One rank's part of a collective call.
struct Call {
  CallSignature signature;
  const std::byte* send = nullptr;
  double input_scale = 1;
};

/// What the ranks of one communicator share.
class Hub {
 public:
  Hub(int size, std::chrono::milliseconds timeout)
      : timeout_(timeout), calls_(static_cast<std::size_t>(size)) {}

  int size() const { return static_cast<int>(calls_.size()); }

  /// Puts down `call` and waits for those of the other ranks. They stay readable until leave().
  Result<std::vector<Call>> meet(int rank, const Call& call) {
    std::unique_lock lock(mutex_);
    calls_[static_cast<std::size_t>(rank)] = call;
    RINGPRESS_RETURN_IF_ERROR(arrive(lock));
    for (const Call& other : calls_) {
      if (other.signature == calls_[0].signature) continue;
      return fail({Code::kMismatch, "one rank called " + describe(calls_[0].signature) +
                                        ", another " + describe(other.signature)});
    }
    return calls_;
  }
  /// Waits until every rank has read the others' buffers.
  Status leave() {
    std::unique_lock lock(mutex_);
    return arrive(lock);
  }

  void put(int from, int to, const Transfer& transfer) {
    const auto* data = static_cast<const std::byte*>(transfer.data);
    const std::size_t bytes = transfer.count * dtype_size(transfer.dtype);
    const std::lock_guard lock(mutex_);
    links_[{from, to}].push_back({transfer.dtype, {data, data + bytes}});
    changed_.notify_all();
  }
  Status take(int from, int to, const Transfer& transfer) {
    std::unique_lock lock(mutex_);
    auto& link = links_[{from, to}];
    const bool came =
        changed_.wait_for(lock, timeout_, [&] { return !link.empty() || !failure_.is_ok(); });
    if (!failure_.is_ok()) return failure_;
    if (!came) return fail({Code::kTimeout, "nothing came from rank " + std::to_string(from)});
    const Message message = std::move(link.front());
    link.pop_front();
    if (message.dtype != transfer.dtype ||
        message.bytes.size() != transfer.count * dtype_size(transfer.dtype)) {
      return fail({Code::kMismatch, "send and receive differ in count or type"});
    }
    std::memcpy(transfer.data, message.bytes.data(), message.bytes.size());
    return Status::ok();
  }

  Status fail(const Status& status) {
    if (failure_.is_ok()) failure_ = status;
    changed_.notify_all();
    return failure_;
  }
  void abort(const Status& status) {
    const std::lock_guard lock(mutex_);
    static_cast<void>(fail(status));
  }
  Status failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  struct Message {
    DType dtype;
    std::vector<std::byte> bytes;
  };

  Status arrive(std::unique_lock<std::mutex>& lock) {
    const std::size_t own_round = round_;
    if (++arrived_ == calls_.size()) {
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    }
    const bool complete =
        changed_.wait_for(lock, timeout_, [&] { return round_ != own_round || !failure_.is_ok(); });
    if (!failure_.is_ok()) return failure_;
    return complete ? Status::ok() : fail({Code::kTimeout, "a rank never came"});
  }

  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Status failure_;
  std::vector<Call> calls_;
  std::size_t arrived_ = 0;
  std::size_t round_ = 0;
  std::map<std::pair<int, int>, std::deque<Message>> links_;
};

/// Hubs by unique id, where ranks find them.
class Hubs {
 public:
  static Hubs& instance() {
    // Never destroyed: threads that a test leaves behind may still be looking at it at exit.
    static Hubs* const hubs = new Hubs;
    return *hubs;
  }
  UniqueId make_id() {
    const std::lock_guard lock(mutex_);
    UniqueId id{};
    ++made_;
    std::memcpy(id.data(), &made_, sizeof made_);
    hubs_[id] = {};
    return id;
  }
  /// Joins the hub of `id` and waits for the others.
  Result<std::shared_ptr<Hub>> join(const UniqueId& id, int rank, int size,
                                    std::chrono::milliseconds timeout) {
    std::shared_ptr<Hub> hub;
    {
      const std::lock_guard lock(mutex_);
      const auto found = hubs_.find(id);
      if (found == hubs_.end()) return Status(Code::kInvalidArgument, "commId was never made");
      if (found->second == nullptr) {
        found->second = std::make_shared<Hub>(size, timeout);
      }
      hub = found->second;
    }
    if (hub->size() != size) {
      const Status status(Code::kMismatch, "ranks differ in nranks");
      hub->abort(status);
      return status;
    }
    RINGPRESS_RETURN_IF_ERROR(hub->meet(rank, {}).status());
    RINGPRESS_RETURN_IF_ERROR(hub->leave());
    return hub;
  }

 private:
  std::mutex mutex_;
  std::uint64_t made_ = 0;
  std::map<UniqueId, std::shared_ptr<Hub>> hubs_;
};

double reduce_pair(double a, double b, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return a + b;
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kMin:
      return std::min(a, b);
  }
  return a;
}

class InProcessCommunicator final : public Communicator, private PiecewiseAllReduce {
 public:
  InProcessCommunicator(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return hub_->size(); }

  /// Everything is exact here: layers make no difference.
  Status set_layers(const HintedCall&, std::span<const Layer>) override { return Status::ok(); }
  Status flush_lazy() override { return Status::ok(); }

  Status all_reduce(const void* send, void* receive, std::size_t count, DType dtype,
                    Reduction reduction) override {
    return reduce_range({signature(CollectiveKind::kAllReduce, count, dtype, reduction.op, -1),
                         bytes_of(send), reduction.input_scale},
                        0, receive);
  }
  PiecewiseAllReduce& pieces() override { return *this; }
  Status reduce_scatter(const void* send, void* receive, std::size_t count, DType dtype,
                        Reduction reduction) override {
    return reduce_range({signature(CollectiveKind::kReduceScatter, count, dtype, reduction.op, -1),
                         bytes_of(send), reduction.input_scale},
                        count * static_cast<std::size_t>(rank_), receive);
  }
  Status reduce(const void* send, void* receive, std::size_t count, DType dtype,
                Reduction reduction, int root) override {
    return reduce_range({signature(CollectiveKind::kReduce, count, dtype, reduction.op, root),
                         bytes_of(send), reduction.input_scale},
                        0, rank_ == root ? receive : nullptr);
  }
  Status all_gather(const void* send, void* receive, std::size_t count, DType dtype) override {
    const std::size_t block = count * dtype_size(dtype);
    RINGPRESS_ASSIGN_OR_RETURN(
        const std::vector<Call> calls,
        hub_->meet(rank_, {signature(CollectiveKind::kAllGather, count, dtype, {}, -1),
                           bytes_of(send), 1}));
    std::vector<std::byte> gathered;
    for (const Call& call : calls) {
      gathered.insert(gathered.end(), call.send, call.send + block);
    }
    return give(gathered, receive);
  }
  Status broadcast(const void* send, void* receive, std::size_t count, DType dtype,
                   int root) override {
    RINGPRESS_ASSIGN_OR_RETURN(
        const std::vector<Call> calls,
        hub_->meet(rank_, {signature(CollectiveKind::kBroadcast, count, dtype, {}, root),
                           bytes_of(send), 1}));
    const std::byte* from = calls[static_cast<std::size_t>(root)].send;
    return give({from, from + count * dtype_size(dtype)}, receive);
  }
  Status exchange(std::span<const Transfer> transfers) override {
    RINGPRESS_RETURN_IF_ERROR(hub_->failure());
    ++statistics_.calls;
    for (const Transfer& transfer : transfers) {
      if (transfer.is_send) hub_->put(rank_, transfer.peer, transfer);
    }
    for (const Transfer& transfer : transfers) {
      if (transfer.is_send) continue;
      RINGPRESS_RETURN_IF_ERROR(hub_->take(transfer.peer, rank_, transfer));
    }
    return Status::ok();
  }

  void set_timeout(std::chrono::milliseconds) override {}  // Threads wait as long as it takes.
  Status finalize() override { return hub_->failure(); }
  void abort(End end) override {
    const std::string own = "rank " + std::to_string(rank());
    switch (end) {
      case End::kAborted:
        return hub_->abort({Code::kAborted, own + " aborted the communicator"});
      case End::kRevoked:
        return hub_->abort({Code::kRevoked, own + " revoked the communicator"});
    }
  }
  Status failure() const override { return hub_->failure(); }
  Status check() override { return hub_->failure(); }
  std::optional<Statistics> statistics_at(ReportTime) const override { return statistics_; }

 private:
  Status start(const PiecewiseTensor& tensor) override {
    tensor_ = tensor;
    return Status::ok();
  }
  Status run(const void* send, void* receive, std::size_t, std::size_t count) override {
    return all_reduce(send, receive, count, tensor_.dtype, {tensor_.op, 1, false});
  }

  static const std::byte* bytes_of(const void* memory) {
    return static_cast<const std::byte*>(memory);
  }
  CallSignature signature(CollectiveKind kind, std::size_t count, DType dtype, ReduceOp op,
                          int root) {
    ++statistics_.calls;
    CallSignature call;
    call.sequence = sequence_++;
    call.count = count;
    call.kind = kind;
    call.dtype = dtype;
    call.op = op;
    call.root = root;
    return call;
  }
  Status give(const std::vector<std::byte>& result, void* receive) {
    RINGPRESS_RETURN_IF_ERROR(hub_->leave());
    if (receive != nullptr) std::memcpy(receive, result.data(), result.size());
    return Status::ok();
  }
  /// Reduces the elements from `first` on into `receive`, unless that is null.
  Status reduce_range(const Call& own, std::size_t first, void* receive) {
    const CallSignature& call = own.signature;
    RINGPRESS_ASSIGN_OR_RETURN(const std::vector<Call> calls, hub_->meet(rank_, own));
    const std::size_t width = dtype_size(call.dtype);
    std::vector<std::byte> result(call.count * width);
    for (std::size_t i = 0; receive != nullptr && i < call.count; ++i) {
      double value = 0;
      for (std::size_t rank = 0; rank < calls.size(); ++rank) {
        const double input = read_number(calls[rank].send + (first + i) * width, call.dtype) *
                             calls[rank].input_scale;
        value = rank == 0 ? input : reduce_pair(value, input, call.op);
      }
      if (call.op == ReduceOp::kAvg) value /= static_cast<double>(calls.size());
      write_number(result.data() + i * width, call.dtype, value);
    }
    return give(result, receive);
  }

  const std::shared_ptr<Hub> hub_;
  const int rank_;
  std::uint64_t sequence_ = 0;
  Statistics statistics_;
  PiecewiseTensor tensor_;
};

/// An id alone: there is no socket to serve.
class NamedMeeting final : public Rendezvous {
 public:
  explicit NamedMeeting(const UniqueId& id) : id_(id) {}
  const UniqueId& id() const override { return id_; }
  Status serve(const ServeOptions&) override { return Status::ok(); }
  void call_off(const Status&) override {}
  void give_back_port() override {}

 private:
  const UniqueId id_;
};

}  // namespace

Result<UniqueId> make_unique_id(const Settings&) {
  return Hubs::instance().make_id();
}

Result<UniqueId> known_unique_id(const Settings&) {
  return Status(Code::kUnsupported, "there are no addresses inside a process");
}

Result<std::unique_ptr<Rendezvous>> prepare_unique_id(const Settings& settings) {
  RINGPRESS_ASSIGN_OR_RETURN(const UniqueId id, make_unique_id(settings));
  return std::unique_ptr<Rendezvous>(std::make_unique<NamedMeeting>(id));
}

Result<std::unique_ptr<Communicator>> Communicator::create(const UniqueId& id, int rank, int size,
                                                           const Settings& settings,
                                                           std::chrono::milliseconds) {
  RINGPRESS_ASSIGN_OR_RETURN(std::shared_ptr<Hub> hub,
                             Hubs::instance().join(id, rank, size, settings.timeout));
  RINGPRESS_RETURN_IF_ERROR(check_settings(settings));
  return std::unique_ptr<Communicator>(new InProcessCommunicator(std::move(hub), rank));
}

}  // namespace ringpress
