// Stands in for NCCL where it drives a CollNet plugin: one head of a node of a communicator, with
// NCCL's threads (the caller launches, a service thread connects and registers, a progress thread
// moves data), its staging memory (8 slots a channel, send and receive halves apart) and its order
// of calls. The "kernel" writes only valid elements into a slot, so the rest of a slot holds what
// an earlier step left there; full slots are handed over all the same.
//
// A node of one rank has one head, and that has all chunks of a tensor. A node of several may have
// a head for each of its network devices. Heads of one number meet in a CollNet communicator of
// their own. Of a chain, a head has the channels of its device; of CollNetDirect every heads-th
// chunk. The sum within the node has been made: all heads of a node are given the same tensor.
#ifndef TESTS_SUPPORT_COLLNET_PROXY_H_
#define TESTS_SUPPORT_COLLNET_PROXY_H_

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/support/collnet_api.h"
#include "tests/support/collnet_meeting.h"

namespace ringpress::testing {

struct ProxyOptions {
  int collnet_version = 12;
  int profiler_version = 6;  // 0: another profiler has the slot.
  int rank = 0;              // Of the node.
  std::uint64_t comm_id = 1;
  std::size_t ranks_of_node = 1;
  std::size_t heads = 1;
  std::size_t head = 0;
  std::size_t channels = 2;
  std::size_t slot_bytes = 512 * 1024;  // Of one channel: the largest chunk.
  int initial_byte = 0;                 // Of the staging memory.
  bool copies = true;   // False: the "kernel" leaves what is in the slots, as it costs no CPU time.
  // When idle, instead of yielding. Under sanitizers those that wait would take the cores from those
  // that work.
#ifdef RINGPRESS_SANITIZED
  bool sleeps = true;
#else
  bool sleeps = false;
#endif
  std::vector<std::uint32_t>* nanoseconds =
      nullptr;  // CPU time of iallreduce + the last test, per call.
  // What the same clock says of a microsecond of arithmetic, once a call: interrupts and the
  // reading of the clock are in both.
  std::vector<std::uint32_t>* control_nanoseconds = nullptr;
};

/// One all-reduce of a tensor.
struct ProxyOperation {
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  std::size_t channels = 2;
  std::size_t chunk_bytes = 32 * 1024;
  bool is_replayed = false;        // By a graph: its sequence number stands still.
  bool is_direct = false;          // CollNetDirect instead of the chain.
  std::size_t member = 0;          // What split_sharing() gave; 0: the communicator itself.
  std::size_t steps_too_many = 0;  // That the profiler is told of, and that never come.
};

class ProxyNode {
 public:
  static constexpr std::size_t kSteps = 8;
  static constexpr std::size_t kGroupChannels = 8;

  ProxyNode(void* library, const ProxyOptions& options, Meeting* meeting, abi::Logger log)
      : options_(options),
        meeting_(meeting),
        api_(collnet_api_of(library, options.collnet_version)) {
    if (options.profiler_version != 0) {
      profiler_ = profiler_api_of(library, options.profiler_version);
      add_member(options.comm_id);
    }
    must(api_.init(&ctx_, options.comm_id, log), "init");
    int count = 0;
    must(api_.devices(&count), "devices");
    if (count < 1) throw std::runtime_error("no device");
  }
  ~ProxyNode() {
    close();
    for (Member& member : members_) profiler_.finalize(member.profiler_ctx);
    api_.finalize(ctx_);
  }
  ProxyNode(const ProxyNode&) = delete;
  ProxyNode& operator=(const ProxyNode&) = delete;

  /// In the service thread: listen, exchange, connect, register. The result of connect.
  ncclResult_t connect() {
    ncclResult_t result = ncclSuccess;
    std::thread([&] { result = connect_in_service_thread(); }).join();
    return result;
  }
  /// As NCCL destroys, or aborts: requests may be under way.
  void close() {
    if (coll_comm_ == nullptr) return;
    std::thread([&] {
      for (void* mhandle : mhandles_) must(api_.dereg_mr(coll_comm_, mhandle), "deregMr");
      must(api_.close_coll(coll_comm_), "closeColl");
    }).join();
    coll_comm_ = nullptr;
  }
  /// A communicator of the same nodes, split off with shared resources: its operations go through
  /// this one's CollNet communicator and progress thread.
  std::size_t split_sharing(std::uint64_t comm_id) {
    if (options_.profiler_version == 0) return 0;
    add_member(comm_id);
    return members_.size() - 1;
  }
  void* coll_comm() const { return coll_comm_; }
  const CollNetApi& api() const { return api_; }

  /// Launches the operations here, runs them in the progress thread. The first error, or success.
  /// `leave_after` > 0: stops after so many calls with requests under way.
  ncclResult_t run(const std::vector<ProxyOperation>& operations, std::size_t leave_after = 0) {
    std::vector<void*> events;
    for (const ProxyOperation& operation : operations) events.push_back(launch(operation));
    ncclResult_t result = ncclSuccess;
    left_ = leave_after;
    std::thread([&] {
      for (std::size_t i = 0; i < operations.size(); ++i) append(operations[i], events[i]);
      for (std::size_t i = 0; i < operations.size() && result == ncclSuccess; ++i) {
        result = progress(operations[i]);
      }
    }).join();
    return result;
  }
  /// Fills the send slots with `bytes` of data, over and over.
  void fill(const void* data, std::size_t bytes) {
    for (std::size_t done = 0; done < region_.size() / 2; done += bytes) {
      std::memcpy(region_.data() + done, data, std::min(bytes, region_.size() / 2 - done));
    }
  }
  std::size_t busy_answers() const { return busy_; }

 private:
  static void must(ncclResult_t result, const char* call) {
    if (result != ncclSuccess) {
      throw std::runtime_error(std::string(call) + ": " + std::to_string(result));
    }
  }
  struct Member {
    void* profiler_ctx = nullptr;
    std::uint64_t sequence = 0;
  };
  void add_member(std::uint64_t comm_id) {
    ProfiledShape shape;
    shape.comm_id = comm_id;
    shape.nodes = meeting_->size();
    shape.ranks = shape.nodes * static_cast<int>(options_.ranks_of_node);
    shape.rank = options_.rank * static_cast<int>(options_.ranks_of_node);
    Member member;
    profiler_.init(&member.profiler_ctx, shape);
    members_.push_back(member);
  }

  static std::size_t element_bytes(ncclDataType_t type) { return type == ncclFloat32 ? 4 : 2; }

  ncclResult_t connect_in_service_thread() {
    std::array<char, abi::kHandleBytes> handle;
    handle.fill(static_cast<char>(0xcc));
    void* listen_comm = nullptr;
    must(api_.listen(ctx_, 0, handle.data(), &listen_comm), "listen");
    auto handles = meeting_->gather(options_.rank, handle.data());
    std::vector<void*> pointers;
    for (auto& other : handles) pointers.push_back(other.data());
    const ncclResult_t result =
        api_.connect(pointers.data(), meeting_->size(), options_.rank, listen_comm, &coll_comm_);
    if (result != ncclSuccess) {
      if (coll_comm_ != nullptr) throw std::runtime_error("a communicator in spite of an error");
      return result;
    }
    must(api_.close_listen(listen_comm), "closeListen");
    region_.assign(2 * kSteps * options_.channels * options_.slot_bytes,
                   static_cast<std::byte>(options_.initial_byte));
    for (void*& mhandle : mhandles_) {
      must(api_.reg_mr(coll_comm_, region_.data(), region_.size(), abi::kPointerHost, &mhandle),
           "regMr");
    }
    return result;
  }

  void* launch(const ProxyOperation& operation) {
    if (members_.empty()) return nullptr;
    Member& member = members_.at(operation.member);
    static constexpr const char* kNames[] = {"ncclFloat32", "ncclFloat16", "ncclBfloat16"};
    ProfiledTensor tensor;
    tensor.send = operation.send;
    tensor.count = operation.count;
    tensor.datatype = operation.type == ncclFloat32   ? kNames[0]
                      : operation.type == ncclFloat16 ? kNames[1]
                                                      : kNames[2];
    if (operation.is_direct) tensor.algorithm = "COLLNET_DIRECT";
    tensor.sequence = member.sequence;
    if (!operation.is_replayed) ++member.sequence;
    void* const event = profiler_.start_tensor(member.profiler_ctx, tensor);
    profiler_.stop(event);  // Before anything has moved.
    return event;
  }

  /// NCCL's: equal on all heads, whoever has something in the last step.
  std::size_t steps_of(const ProxyOperation& operation) const {
    const std::size_t chunks = operation.channels * (operation.is_direct ? options_.heads : 1);
    const std::size_t loop = chunks * operation.chunk_bytes;
    return (operation.count * element_bytes(operation.type) + loop - 1) / loop;
  }
  /// Channels of this head. NCCL calls them subs.
  std::size_t subs_of(const ProxyOperation& operation) const {
    if (operation.is_direct) return operation.channels;
    return (operation.channels + options_.heads - 1 - options_.head) / options_.heads;
  }
  std::size_t channel_of(const ProxyOperation& operation, std::size_t sub) const {
    return operation.is_direct ? sub : sub * options_.heads + options_.head;
  }

  void append(const ProxyOperation& operation, void* event) {
    if (event == nullptr) return;
    for (int direction = 0; direction < 2; ++direction) {
      for (std::size_t sub = 0; sub < subs_of(operation); ++sub) {
        profiler_.start_channel(members_[operation.member].profiler_ctx, event,
                                static_cast<int>(channel_of(operation, sub)),
                                static_cast<int>(steps_of(operation) + operation.steps_too_many),
                                static_cast<int>(operation.chunk_bytes));
      }
    }
  }

  std::byte* slot(bool receives, std::size_t step, std::size_t sub,
                  const ProxyOperation& operation) {
    const std::size_t base = ((receives ? kSteps : 0) + step % kSteps) * options_.channels;
    return region_.data() + base * options_.slot_bytes + sub * operation.chunk_bytes;
  }

  /// The valid bytes of a sub's step: offset in the tensor and length.
  std::pair<std::size_t, std::size_t> valid(const ProxyOperation& operation, std::size_t step,
                                            std::size_t sub) const {
    if (!options_.copies) return {0, 0};
    const std::size_t bytes = operation.count * element_bytes(operation.type);
    std::size_t chunk = step * operation.channels + channel_of(operation, sub);
    if (operation.is_direct) chunk = chunk * options_.heads + options_.head;
    const std::size_t begin = chunk * operation.chunk_bytes;
    if (begin >= bytes) return {0, 0};
    return {begin, std::min(operation.chunk_bytes, bytes - begin)};
  }

  /// NCCL's thread yields when it is idle, on a core that it has to itself. Where all nodes share a
  /// few cores, that would take them from the work that is measured.
  void rest() const {
    if (options_.sleeps) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    } else {
      sched_yield();
    }
  }

  struct Group {
    std::size_t first = 0;  // Sub.
    std::size_t subs = 0;
    std::size_t sent = 0;  // Steps.
    std::size_t done = 0;
    std::array<void*, kSteps> requests{};
    std::array<std::uint32_t, kSteps> issue_ns{};
  };
  /// CPU time of this thread: on a busy machine, wall-clock time is that of other threads.
  static std::uint64_t thread_nanoseconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1000000000 +
           static_cast<std::uint64_t>(now.tv_nsec);
  }

  /// Some: a chain of multiplications that calls nobody.
  static void compute_for_a_microsecond() {
    std::uint64_t state = 1;
    for (int i = 0; i < 500; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      asm volatile("" : "+r"(state));
    }
  }

  ncclResult_t progress(const ProxyOperation& operation) {
    const std::size_t steps = steps_of(operation);
    std::vector<Group> groups;
    for (std::size_t first = 0; first < subs_of(operation); first += kGroupChannels) {
      Group group;
      group.first = first;
      group.subs = std::min(kGroupChannels, subs_of(operation) - first);
      groups.push_back(group);
    }
    const auto is_done = [steps](const Group& group) { return group.done == steps; };
    while (!std::all_of(groups.begin(), groups.end(), is_done)) {
      const std::size_t moved_before = moved_;
      for (std::size_t g = 0; g < groups.size(); ++g) {
        // Step 0 of each group, then step 1.
        const bool in_order =
            g == 0 ? groups.back().sent == groups[0].sent : groups[g].sent < groups[g - 1].sent;
        if (in_order && groups[g].sent < steps && groups[g].sent < groups[g].done + kSteps) {
          const ncclResult_t result = send(operation, &groups[g]);
          if (result != ncclSuccess) return result;
        }
        if (left_ == 1) return ncclSuccess;
        const ncclResult_t result = poll(operation, &groups[g]);
        if (result != ncclSuccess) return result;
      }
      if (moved_ == moved_before) rest();
    }
    return ncclSuccess;
  }

  ncclResult_t send(const ProxyOperation& operation, Group* group) {
    const std::size_t step = group->sent;
    for (std::size_t s = group->first; s < group->first + group->subs; ++s) {
      const auto [begin, bytes] = valid(operation, step, s);
      std::memcpy(slot(false, step, s, operation),
                  static_cast<const std::byte*>(operation.send) + begin, bytes);
    }
    void* request = nullptr;
    if (options_.control_nanoseconds != nullptr) {
      const std::uint64_t begin = thread_nanoseconds();
      compute_for_a_microsecond();
      const std::uint64_t took = thread_nanoseconds() - begin;
      options_.control_nanoseconds->push_back(static_cast<std::uint32_t>(took));
    }
    const std::uint64_t started = options_.nanoseconds != nullptr ? thread_nanoseconds() : 0;
    const ncclResult_t result =
        api_.iallreduce(coll_comm_, slot(false, step, group->first, operation),
                        slot(true, step, group->first, operation),
                        group->subs * operation.chunk_bytes / element_bytes(operation.type),
                        operation.type, mhandles_.data(), &request);
    if (result != ncclSuccess) return result;
    if (request == nullptr) {
      ++busy_;
      return result;  // The same call comes again.
    }
    group->requests[step % kSteps] = request;
    if (options_.nanoseconds != nullptr) {
      group->issue_ns[step % kSteps] = static_cast<std::uint32_t>(thread_nanoseconds() - started);
    }
    ++group->sent;
    ++moved_;
    if (left_ > 1) --left_;
    return result;
  }

  ncclResult_t poll(const ProxyOperation& operation, Group* group) {
    if (group->done == group->sent) return ncclSuccess;
    const std::size_t step = group->done;
    int done = 0;
    int size = 0;
    const std::uint64_t started = options_.nanoseconds != nullptr ? thread_nanoseconds() : 0;
    const ncclResult_t result = api_.test(group->requests[step % kSteps], &done, &size);
    if (result != ncclSuccess || done == 0) return result;
    if (options_.nanoseconds != nullptr) {
      options_.nanoseconds->push_back(group->issue_ns[step % kSteps] +
                                      static_cast<std::uint32_t>(thread_nanoseconds() - started));
    }
    if (static_cast<std::size_t>(size) != group->subs * operation.chunk_bytes) {
      return ncclInternalError;
    }
    for (std::size_t s = group->first; s < group->first + group->subs; ++s) {
      const auto [begin, bytes] = valid(operation, step, s);
      std::memcpy(static_cast<std::byte*>(operation.receive) + begin,
                  slot(true, step, s, operation), bytes);
    }
    ++group->done;
    ++moved_;
    return result;
  }

  const ProxyOptions options_;
  Meeting* const meeting_;
  const CollNetApi api_;
  ProfilerApi profiler_;
  void* ctx_ = nullptr;
  std::vector<Member> members_;  // This communicator, and those split off; none without profiler.
  void* coll_comm_ = nullptr;
  std::array<void*, 2> mhandles_{};
  std::vector<std::byte> region_;
  std::size_t busy_ = 0;
  std::size_t moved_ = 0;  // Calls issued or done.
  std::size_t left_ = 0;
};

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_COLLNET_PROXY_H_
