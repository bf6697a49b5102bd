// A device whose streams are threads: what is asked for in one is done later, after a random time,
// as on an accelerator that is far behind its program. And an NCCL that works in these streams.
#ifndef TESTS_SUPPORT_QUEUED_DEVICE_H_
#define TESTS_SUPPORT_QUEUED_DEVICE_H_

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_plugin/interposer/devices.h"
#include "tests/support/interposer_job.h"

namespace ringpress::nccl_plugin::interposer {

/// Work that a thread does in order. What is there when it goes is done first.
class WorkQueue {
 public:
  /// Before each piece of work up to so much time passes.
  explicit WorkQueue(std::chrono::microseconds most_delay, unsigned seed)
      : most_delay_(most_delay), dice_(seed), thread_([this] { run(); }) {}
  ~WorkQueue() {
    push([this] { is_over_ = true; });
    thread_.join();
  }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void push(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_all();
  }
  void drain() {
    std::mutex mutex;
    std::condition_variable done;
    bool is_done = false;
    push([&] {
      const std::lock_guard lock(mutex);
      is_done = true;
      done.notify_all();
    });
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return is_done; });
  }

 private:
  void run() {
    while (!is_over_) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !work_.empty(); });
      const std::function<void()> next = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      if (most_delay_.count() > 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(
            std::uniform_int_distribution<std::int64_t>(0, most_delay_.count())(dice_)));
      }
      next();
    }
  }

  const std::chrono::microseconds most_delay_;
  std::mt19937 dice_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool is_over_ = false;
  std::thread thread_;
};

/// A point that threads reach, in any order with those who wait for it.
class Milestone {
 public:
  void reach() {
    const std::lock_guard lock(mutex_);
    is_reached_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_reached_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_reached_ = false;
};

inline WorkQueue& queue_of(Stream stream) {
  return *static_cast<WorkQueue*>(stream);
}

/// What has been recorded last.
class QueuedEvent {
 public:
  std::shared_ptr<Milestone> record() {
    const std::lock_guard lock(mutex_);
    happened_ = false;
    return last_ = std::make_shared<Milestone>();
  }
  void happen() {
    const std::lock_guard lock(mutex_);
    time_ = std::chrono::steady_clock::now();
    happened_ = true;
  }
  std::shared_ptr<Milestone> last() {
    const std::lock_guard lock(mutex_);
    return last_;
  }
  /// False: it has not happened.
  bool find_time(std::chrono::steady_clock::time_point* time) {
    const std::lock_guard lock(mutex_);
    *time = time_;
    return happened_;
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<Milestone> last_;
  std::chrono::steady_clock::time_point time_;
  bool happened_ = false;
};

class QueuedCodec final : public DeviceCodec {
 public:
  explicit QueuedCodec(std::unique_ptr<DeviceCodec> codec) : codec_(std::move(codec)) {}

  const Codec& codec() const override { return codec_->codec(); }
  Status supports(Contributions form, std::size_t wires) const override {
    return codec_->supports(form, wires);
  }
  Status encode(Stream stream, std::span<const EncodeArgs> shards, std::byte* scratch) override {
    queue_of(stream).push([codec = codec_,
                           kept = std::vector<EncodeArgs>(shards.begin(), shards.end()),
                           scratch] { static_cast<void>(codec->encode(nullptr, kept, scratch)); });
    return Status::ok();
  }
  Status decode_add_encode(Stream stream, const DecodeAddEncodeArgs& args,
                           std::byte* scratch) override {
    queue_of(stream).push(
        [codec = codec_, args, scratch,
         wires = std::vector<const std::byte*>(args.wires.begin(), args.wires.end()),
         sizes = std::vector<std::size_t>(args.wire_sizes.begin(), args.wire_sizes.end())] {
          DecodeAddEncodeArgs kept = args;
          kept.wires = wires;
          kept.wire_sizes = sizes;
          static_cast<void>(codec->decode_add_encode(nullptr, kept, scratch));
        });
    return Status::ok();
  }
  Status decode(Stream stream, std::span<const DecodeArgs> shards, std::byte* scratch) override {
    queue_of(stream).push([codec = codec_,
                           kept = std::vector<DecodeArgs>(shards.begin(), shards.end()),
                           scratch] { static_cast<void>(codec->decode(nullptr, kept, scratch)); });
    return Status::ok();
  }

 private:
  const std::shared_ptr<DeviceCodec> codec_;
};

/// Without agreements, projections, models and scales.
class QueuedDevice final : public Device {
 public:
  QueuedDevice(std::chrono::microseconds most_delay, unsigned seed)
      : most_delay_(most_delay), seed_(seed) {}

  const char* name() const override { return "queues"; }
  Result<void*> allocate(std::size_t bytes) override { return host_->allocate(bytes); }
  void free(void* memory) override {
    drain();
    host_->free(memory);
  }
  Result<void*> allocate_host(std::size_t bytes) override { return host_->allocate_host(bytes); }
  void free_host(void* memory) override { free(memory); }

  Result<Stream> create_stream() override {
    const std::lock_guard lock(mutex_);
    streams_.push_back(std::make_unique<WorkQueue>(most_delay_, ++seed_));
    return Stream(streams_.back().get());
  }
  void destroy_stream(Stream stream) override { queue_of(stream).drain(); }
  Result<Event> create_event() override { return Event(new QueuedEvent()); }
  Result<Event> create_timing_event() override { return create_event(); }
  void destroy_event(Event event) override {
    drain();
    delete static_cast<QueuedEvent*>(event);
  }
  Result<double> seconds_between(Event begin, Event end) override {
    std::chrono::steady_clock::time_point from, to;
    const bool have_happened = static_cast<QueuedEvent*>(begin)->find_time(&from) &&
                               static_cast<QueuedEvent*>(end)->find_time(&to);
    return have_happened ? std::chrono::duration<double>(to - from).count() : -1.0;
  }
  Status record(Event event, Stream stream) override {
    auto* const recorded = static_cast<QueuedEvent*>(event);
    queue_of(stream).push([recorded, reached = recorded->record()] {
      recorded->happen();
      reached->reach();
    });
    return Status::ok();
  }
  Status wait(Stream stream, Event event) override {
    const std::shared_ptr<Milestone> awaited = static_cast<QueuedEvent*>(event)->last();
    if (awaited != nullptr) queue_of(stream).push([awaited] { awaited->wait(); });
    return Status::ok();
  }
  Result<std::uint64_t> capture(Stream) override { return std::uint64_t{0}; }
  Status keep_with_graph(Stream, std::shared_ptr<void>) override {
    return {Code::kUnsupported, "queues have no graphs"};
  }

  Status zero(Stream stream, void* memory, std::size_t bytes) override {
    queue_of(stream).push([=] { write(memory, nullptr, bytes); });
    return Status::ok();
  }
  Status copy(Stream stream, void* to, const void* from, std::size_t bytes) override {
    queue_of(stream).push([=] { write(to, from, bytes); });
    return Status::ok();
  }
  Status synchronize(Stream stream) override {
    queue_of(stream).drain();
    return Status::ok();
  }

  Result<std::unique_ptr<DeviceCodec>> make_codec(const std::string& specification, DType dtype,
                                                  ReduceOp op) override {
    RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<DeviceCodec> codec,
                               host_->make_codec(specification, dtype, op));
    return std::unique_ptr<DeviceCodec>(std::make_unique<QueuedCodec>(std::move(codec)));
  }
  Result<std::unique_ptr<DeviceProjection>> make_projection(const std::string&, DType,
                                                            ReduceOp) override {
    return Status(Code::kUnsupported, "queues have no projections");
  }
  Result<std::unique_ptr<DeviceModels>> make_models() override {
    return Status(Code::kUnsupported, "queues have no models");
  }
  Status check_reachable(const void*) override { return Status::ok(); }

 private:
  /// A word at once, as those who wait look at it.
  static void write(void* to, const void* from, std::size_t bytes) {
    std::uint64_t word = 0;
    if (bytes != sizeof word) {
      from == nullptr ? std::memset(to, 0, bytes) : std::memcpy(to, from, bytes);
      return;
    }
    if (from != nullptr) std::memcpy(&word, from, sizeof word);
    __atomic_store_n(static_cast<std::uint64_t*>(to), word, __ATOMIC_RELEASE);
  }
  void drain() {
    const std::lock_guard lock(mutex_);
    for (const auto& stream : streams_) stream->drain();
  }

  const std::chrono::microseconds most_delay_;
  const std::unique_ptr<Device> host_ = make_host_device();
  std::mutex mutex_;
  unsigned seed_;
  std::vector<std::unique_ptr<WorkQueue>> streams_;
};

/// The stand-in for NVIDIA's library in queues: a communicator's calls run in the order in which
/// they were made, each once its stream has come to it.
class QueuedNccl {
 public:
  /// Its functions. One at a time.
  const ringpressRealNccl& table() {
    current() = this;
    return table_;
  }

  QueuedNccl() : table_(recording_nccl()) {
    table_.GroupStart = [] { return ++group().depth, ncclSuccess; };
    table_.GroupEnd = [] { return current()->end_group(); };
    table_.AllReduce = [](const void* send, void* receive, size_t count, ncclDataType_t type,
                          ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
      return current()->add(comm, stream, [=] {
        return recording_nccl().AllReduce(send, receive, count, type, op, comm, nullptr);
      });
    };
    table_.AllGather = [](const void* send, void* receive, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream) {
      return current()->add(comm, stream, [=] {
        return recording_nccl().AllGather(send, receive, count, type, comm, nullptr);
      });
    };
    table_.Send = [](const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                     cudaStream_t stream) {
      return current()->add(comm, stream, [=] {
        return recording_nccl().Send(send, count, type, peer, comm, nullptr);
      });
    };
    table_.Recv = [](void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                     cudaStream_t stream) {
      return current()->add(comm, stream, [=] {
        return recording_nccl().Recv(receive, count, type, peer, comm, nullptr);
      });
    };
    table_.CommDestroy = [](ncclComm_t comm) {
      current()->forget(comm);
      return recording_nccl().CommDestroy(comm);
    };
    table_.CommAbort = [](ncclComm_t comm) {
      const ncclResult_t result = recording_nccl().CommRevoke(comm, NCCL_REVOKE_DEFAULT);
      current()->forget(comm);
      static_cast<void>(recording_nccl().CommAbort(comm));
      return result;
    };
  }

 private:
  using Operation = std::function<ncclResult_t()>;
  struct Operations {
    ncclComm_t comm = nullptr;
    cudaStream_t stream = nullptr;
    std::vector<Operation> all;
  };
  struct Group {
    int depth = 0;
    std::vector<Operations> calls;
  };

  static QueuedNccl*& current() {
    static QueuedNccl* one = nullptr;
    return one;
  }
  static Group& group() {
    thread_local Group mine;
    return mine;
  }

  ncclResult_t add(ncclComm_t comm, cudaStream_t stream, Operation operation) {
    Group& mine = group();
    if (mine.calls.empty() || mine.calls.back().comm != comm) {
      mine.calls.push_back({comm, stream, {}});
    }
    mine.calls.back().all.push_back(std::move(operation));
    if (mine.depth == 0) run(std::exchange(mine.calls, {}));
    return ncclSuccess;
  }
  ncclResult_t end_group() {
    Group& mine = group();
    if (--mine.depth == 0) run(std::exchange(mine.calls, {}));
    return ncclSuccess;
  }
  void run(std::vector<Operations> calls) {
    for (Operations& call : calls) {
      const auto begun = std::make_shared<Milestone>(), ended = std::make_shared<Milestone>();
      queue_of(call.comm).push([begun, ended, all = std::move(call.all)] {
        begun->wait();
        static_cast<void>(recording_nccl().GroupStart());
        for (const Operation& operation : all) static_cast<void>(operation());
        static_cast<void>(recording_nccl().GroupEnd());
        ended->reach();
      });
      interposer::queue_of(call.stream).push([begun, ended] {
        begun->reach();
        ended->wait();
      });
    }
  }
  WorkQueue& queue_of(ncclComm_t comm) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<WorkQueue>& queue = queues_[comm];
    if (queue == nullptr) queue = std::make_unique<WorkQueue>(std::chrono::microseconds(0), 0);
    return *queue;
  }
  void forget(ncclComm_t comm) {
    std::unique_ptr<WorkQueue> ended;  // Does what there is.
    const std::lock_guard lock(mutex_);
    ended = std::move(queues_[comm]);
    queues_.erase(comm);
  }

  ringpressRealNccl table_;
  std::mutex mutex_;
  std::map<ncclComm_t, std::unique_ptr<WorkQueue>> queues_;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // TESTS_SUPPORT_QUEUED_DEVICE_H_
