// Stands in for NCCL where it drives a CollNet plugin: one head of a node of a communicator, with
// NCCL's threads (the caller launches, a service thread connects and registers, a progress thread
// moves data), its staging memory (8 slots a channel, send and receive halves apart) and its order
// of calls. The "kernel" writes only valid elements into a slot, so the rest of a slot holds what
// an earlier step left there; full slots are handed over all the same.
//
// Operations are launched, and then appended in the progress thread, before the first piece of any;
// or, with a seed, at random moments while others are under way, as NCCL does. Those of
// communicators that share a CollNet communicator go through it one after the other; several
// CollNet communicators in one progress thread are independent.
//
// A node of one rank has one head, and that has all chunks of a tensor. A node of several may have
// a head for each of its network devices. Heads of one number meet in a CollNet communicator of
// their own. Of a chain, a head has the channels of its device; of CollNetDirect every heads-th
// chunk. The sum within the node has been made: all heads of a node are given the same tensor.
#ifndef TESTS_SUPPORT_COLLNET_PROXY_H_
#define TESTS_SUPPORT_COLLNET_PROXY_H_

#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/collnet_api.h"
#include "tests/support/collnet_meeting.h"
#include "tests/support/collnet_operations.h"

namespace ringpress::testing {

struct ProxyOptions {
  int collnet_version = 12;
  int profiler_version = 7;  // 0: another profiler has the slot.
  int rank = 0;              // Of the node.
  std::uint64_t comm_id = 1;
  std::size_t ranks_of_node = 1;
  std::size_t heads = 1;
  std::size_t head = 0;
  std::size_t channels = 2;
  std::size_t slot_bytes = 512 * 1024;  // Of one channel: the largest chunk.
  int initial_byte = 0;                 // Of the staging memory.
  std::uint64_t seed = 0;               // Of the moments of appending. 0: all at first.
  bool copies = true;  // False: the "kernel" leaves what is in the slots, as it costs no CPU time.
  // When idle, instead of yielding. Under sanitizers those that wait would take the cores from
  // those that work.
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
  /// Called after each event that the profiler is told of, in the thread that tells it.
  std::function<void(void* profiler_ctx, void* tensor)> after_event;
};

class ProxyNode {
 public:
  ProxyNode(void* library, const ProxyOptions& options, Meeting* meeting, abi::Logger log)
      : options_(options),
        api_(collnet_api_of(library, options.collnet_version)),
        random_(options.seed) {
    networks_.push_back(std::make_unique<Network>(meeting, options.rank));
    if (options.profiler_version != 0) {
      profiler_ = profiler_api_of(library, options.profiler_version);
    }
    add_member(options.comm_id, 0);
    must(api_.init(&ctx_, options.comm_id, log), "init");
    int count = 0;
    must(api_.devices(&count), "devices");
    if (count < 1) throw std::runtime_error("no device");
  }
  ~ProxyNode() {
    close();
    for (Member& member : members_) {
      if (has_profiler()) profiler_.finalize(member.profiler_ctx);
    }
    api_.finalize(ctx_);
  }
  ProxyNode(const ProxyNode&) = delete;
  ProxyNode& operator=(const ProxyNode&) = delete;

  /// In the service thread: listen, exchange, connect, register. The result of connect.
  ncclResult_t connect() { return connect(networks_[0].get()); }
  /// As NCCL destroys, or aborts: requests may be under way.
  void close() {
    for (auto& network : networks_) close(network.get());
  }
  /// A communicator of the same nodes as `parent`, split off from it with shared resources: its
  /// operations go through the parent's CollNet communicator and progress thread.
  std::size_t split_sharing(std::uint64_t comm_id, std::size_t parent = 0) {
    return add_member(comm_id, members_.at(parent).network);
  }
  /// One of fewer nodes, those of `meeting`: through this one's progress thread and a CollNet
  /// communicator of its own.
  std::size_t split_apart(std::uint64_t comm_id, Meeting* meeting, int rank) {
    networks_.push_back(std::make_unique<Network>(meeting, rank));
    const std::size_t member = add_member(comm_id, networks_.size() - 1);
    must(connect(networks_.back().get()), "connect");
    return member;
  }
  void* coll_comm() const { return networks_[0]->coll_comm; }
  const CollNetApi& api() const { return api_; }

  /// Launches the operations here, runs them in the progress thread. The first error, or success.
  /// `leave_after` > 0: stops after so many calls with requests under way.
  ncclResult_t run(const std::vector<ProxyOperation>& operations, std::size_t leave_after = 0) {
    ncclResult_t result = ncclSuccess;
    left_ = leave_after;
    operations_ = operations.size();
    launched_.clear();  // Of a run that failed.
    if (options_.seed == 0) launch(operations);
    progress_thread_.start([&] { result = progress_all(); });
    if (options_.seed != 0) launch(operations);
    progress_thread_.wait();
    return result;
  }
  /// Fills the send slots with `bytes` of data, over and over.
  void fill(const void* data, std::size_t bytes) {
    std::vector<std::byte>& region = networks_[0]->region;
    for (std::size_t done = 0; done < region.size() / 2; done += bytes) {
      std::memcpy(region.data() + done, data, std::min(bytes, region.size() / 2 - done));
    }
  }
  std::size_t busy_answers() const { return busy_; }

 private:
  static void must(ncclResult_t result, const char* call) {
    if (result != ncclSuccess) {
      throw std::runtime_error(std::string(call) + ": " + std::to_string(result));
    }
  }
  struct Group {
    std::size_t first = 0;  // Sub.
    std::size_t subs = 0;
    std::size_t sent = 0;  // Steps.
    std::size_t done = 0;
    std::array<std::uint32_t, kProxySteps> issue_ns{};
  };
  /// In the progress thread.
  struct Running {
    ProxyOperation operation;
    ProxyArgs* send = nullptr;
    ProxyArgs* receive = nullptr;
    std::size_t steps = 0;
    std::vector<Group> groups;
  };
  /// A CollNet communicator, its staging memory and its operations, one after the other.
  struct Network {
    Network(Meeting* meeting_, int rank_) : meeting(meeting_), rank(rank_) {}
    Meeting* meeting;
    int rank;
    void* coll_comm = nullptr;
    std::array<void*, 2> mhandles{};
    std::vector<std::byte> region;
    std::deque<Running> running;
  };
  /// A communicator.
  struct Member {
    void* profiler_ctx = nullptr;
    std::uint64_t sequence = 0;
    std::size_t network = 0;
  };
  struct Launched {
    ProxyOperation operation;
    void* event = nullptr;
  };

  bool has_profiler() const { return options_.profiler_version != 0; }
  std::size_t add_member(std::uint64_t comm_id, std::size_t network) {
    Member member;
    member.network = network;
    if (has_profiler()) {
      ProfiledShape shape;
      shape.comm_id = comm_id;
      shape.nodes = networks_[network]->meeting->size();
      shape.ranks = shape.nodes * static_cast<int>(options_.ranks_of_node);
      shape.rank = networks_[network]->rank * static_cast<int>(options_.ranks_of_node);
      profiler_.init(&member.profiler_ctx, shape);
    }
    members_.push_back(member);
    return members_.size() - 1;
  }

  static std::size_t element_bytes(ncclDataType_t type) { return type == ncclFloat32 ? 4 : 2; }

  ncclResult_t connect(Network* network) {
    ncclResult_t result = ncclSuccess;
    std::thread([&] { result = connect_in_service_thread(network); }).join();
    return result;
  }
  ncclResult_t connect_in_service_thread(Network* network) {
    std::array<char, abi::kHandleBytes> handle;
    handle.fill(static_cast<char>(0xcc));
    void* listen_comm = nullptr;
    must(api_.listen(ctx_, 0, handle.data(), &listen_comm), "listen");
    auto handles = network->meeting->gather(network->rank, handle.data());
    std::vector<void*> pointers;
    for (auto& other : handles) pointers.push_back(other.data());
    const ncclResult_t result = api_.connect(pointers.data(), network->meeting->size(),
                                             network->rank, listen_comm, &network->coll_comm);
    if (result != ncclSuccess) {
      if (network->coll_comm != nullptr) {
        throw std::runtime_error("a communicator in spite of an error");
      }
      return result;
    }
    must(api_.close_listen(listen_comm), "closeListen");
    network->region.assign(2 * kProxySteps * options_.channels * options_.slot_bytes,
                           static_cast<std::byte>(options_.initial_byte));
    for (void*& mhandle : network->mhandles) {
      must(api_.reg_mr(network->coll_comm, network->region.data(), network->region.size(),
                       abi::kPointerHost, &mhandle),
           "regMr");
    }
    return result;
  }
  void close(Network* network) {
    if (network->coll_comm == nullptr) return;
    std::thread([&] {
      for (void* mhandle : network->mhandles) {
        must(api_.dereg_mr(network->coll_comm, mhandle), "deregMr");
      }
      must(api_.close_coll(network->coll_comm), "closeColl");
    }).join();
    network->coll_comm = nullptr;
  }

  /// In the caller's thread.
  void launch(const std::vector<ProxyOperation>& operations) {
    std::mt19937_64 random(options_.seed + 1);
    for (const ProxyOperation& operation : operations) {
      if (options_.seed != 0 && random() % 2 == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
      }
      const Launched launched{operation, tell(operation)};
      const std::lock_guard lock(mutex_);
      launched_.push_back(launched);
    }
  }
  void* tell(const ProxyOperation& operation) {
    if (!has_profiler()) return nullptr;
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
    tensor.tag = operation.tag;
    if (!operation.is_replayed) ++member.sequence;
    void* const event = profiler_.start_tensor(member.profiler_ctx, tensor);
    profiler_.stop(event);  // Before anything has moved.
    if (options_.after_event) options_.after_event(member.profiler_ctx, event);
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

  void append(const Launched& launched) {
    const ProxyOperation& operation = launched.operation;
    Running running{operation, pool_.take(), pool_.take(), steps_of(operation), {}};
    const std::size_t subs = subs_of(operation);
    // NCCL 2.27, the release of version 4, tells of the first one alone.
    const std::size_t told = options_.profiler_version == 4 ? std::min<std::size_t>(subs, 1) : subs;
    for (std::size_t sub = 0; sub < told && has_profiler(); ++sub) {
      for (ProxyArgs* args : {running.send, running.receive}) {
        profiler_.start_channel(members_[operation.member].profiler_ctx, launched.event,
                                static_cast<int>(channel_of(operation, sub)),
                                static_cast<int>(running.steps + operation.steps_too_many),
                                static_cast<int>(operation.chunk_bytes), &args->subs[sub].event);
        if (!options_.after_event) continue;
        options_.after_event(members_[operation.member].profiler_ctx, launched.event);
      }
    }
    for (std::size_t first = 0; first < subs; first += kProxyGroupChannels) {
      Group group;
      group.first = first;
      group.subs = std::min(kProxyGroupChannels, subs - first);
      running.groups.push_back(group);
    }
    networks_[members_[operation.member].network]->running.push_back(std::move(running));
  }

  /// How many were appended.
  std::size_t append_launched() {
    if (options_.seed != 0 && random_() % 2 == 0) return 0;
    std::vector<Launched> taken;
    {
      const std::lock_guard lock(mutex_);
      std::size_t count = launched_.size();
      if (options_.seed != 0) count = std::min<std::size_t>(count, random_() % 4);
      taken.assign(launched_.begin(), launched_.begin() + static_cast<std::ptrdiff_t>(count));
      launched_.erase(launched_.begin(), launched_.begin() + static_cast<std::ptrdiff_t>(count));
    }
    for (const Launched& launched : taken) append(launched);
    return taken.size();
  }

  std::byte* slot(const Network& network, bool receives, std::size_t step, std::size_t sub,
                  const ProxyOperation& operation) const {
    const std::size_t base =
        ((receives ? kProxySteps : 0) + step % kProxySteps) * options_.channels;
    return const_cast<std::byte*>(network.region.data()) + base * options_.slot_bytes +
           sub * operation.chunk_bytes;
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

  ncclResult_t progress_all() {
    const ncclResult_t result = progress_until_done();
    for (auto& network : networks_) network->running.clear();
    return result;
  }
  ncclResult_t progress_until_done() {
    std::size_t appended = 0;
    for (;;) {
      const std::size_t moved_before = moved_;
      appended += append_launched();
      bool is_done = appended == operations_;
      for (auto& network : networks_) {
        if (network->running.empty()) continue;
        const ncclResult_t result = progress(network.get());
        if (result != ncclSuccess || left_ == 1) return result;
        is_done = is_done && network->running.empty();
      }
      if (is_done) return ncclSuccess;
      if (moved_ == moved_before) rest();
    }
  }

  /// The first operation.
  ncclResult_t progress(Network* network) {
    Running& running = network->running.front();
    std::vector<Group>& groups = running.groups;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      // Step 0 of each group, then step 1.
      const bool in_order =
          g == 0 ? groups.back().sent == groups[0].sent : groups[g].sent < groups[g - 1].sent;
      if (in_order && groups[g].sent < running.steps &&
          groups[g].sent < groups[g].done + kProxySteps) {
        const ncclResult_t result = send(*network, &running, &groups[g]);
        if (result != ncclSuccess) return result;
      }
      if (left_ == 1) return ncclSuccess;
      const ncclResult_t result = poll(*network, &running, &groups[g]);
      if (result != ncclSuccess) return result;
    }
    const auto is_done = [&](const Group& group) { return group.done == running.steps; };
    if (std::all_of(groups.begin(), groups.end(), is_done)) {
      pool_.give_back(running.send);
      pool_.give_back(running.receive);
      network->running.pop_front();
    }
    return ncclSuccess;
  }

  static void** request_of(Running* running, const Group& group, std::size_t step) {
    return &running->send->subs[group.first + group.subs - 1].requests[step % kProxySteps];
  }

  ncclResult_t send(const Network& network, Running* running, Group* group) {
    const ProxyOperation& operation = running->operation;
    const std::size_t step = group->sent;
    for (std::size_t s = group->first; s < group->first + group->subs; ++s) {
      const auto [begin, bytes] = valid(operation, step, s);
      std::memcpy(slot(network, false, step, s, operation),
                  static_cast<const std::byte*>(operation.send) + begin, bytes);
    }
    if (options_.control_nanoseconds != nullptr) {
      const std::uint64_t begin = thread_nanoseconds();
      compute_for_a_microsecond();
      const std::uint64_t took = thread_nanoseconds() - begin;
      options_.control_nanoseconds->push_back(static_cast<std::uint32_t>(took));
    }
    void** const request = request_of(running, *group, step);
    std::array<void*, 2> mhandles = network.mhandles;
    const std::uint64_t started = options_.nanoseconds != nullptr ? thread_nanoseconds() : 0;
    const ncclResult_t result =
        api_.iallreduce(network.coll_comm, slot(network, false, step, group->first, operation),
                        slot(network, true, step, group->first, operation),
                        group->subs * operation.chunk_bytes / element_bytes(operation.type),
                        operation.type, mhandles.data(), request);
    if (result != ncclSuccess) return result;
    if (*request == nullptr) {
      ++busy_;
      return result;  // The same call comes again.
    }
    if (options_.nanoseconds != nullptr) {
      group->issue_ns[step % kProxySteps] =
          static_cast<std::uint32_t>(thread_nanoseconds() - started);
    }
    ++group->sent;
    ++moved_;
    if (left_ > 1) --left_;
    return result;
  }

  ncclResult_t poll(const Network& network, Running* running, Group* group) {
    if (group->done == group->sent) return ncclSuccess;
    const ProxyOperation& operation = running->operation;
    const std::size_t step = group->done;
    int done = 0;
    int size = 0;
    const std::uint64_t started = options_.nanoseconds != nullptr ? thread_nanoseconds() : 0;
    const ncclResult_t result = api_.test(*request_of(running, *group, step), &done, &size);
    if (result != ncclSuccess || done == 0) return result;
    if (options_.nanoseconds != nullptr) {
      options_.nanoseconds->push_back(group->issue_ns[step % kProxySteps] +
                                      static_cast<std::uint32_t>(thread_nanoseconds() - started));
    }
    if (static_cast<std::size_t>(size) != group->subs * operation.chunk_bytes) {
      return ncclInternalError;
    }
    for (std::size_t s = group->first; s < group->first + group->subs; ++s) {
      const auto [begin, bytes] = valid(operation, step, s);
      std::memcpy(static_cast<std::byte*>(operation.receive) + begin,
                  slot(network, true, step, s, operation), bytes);
    }
    ++group->done;
    ++moved_;
    return result;
  }

  const ProxyOptions options_;
  const CollNetApi api_;
  ProfilerApi profiler_;
  void* ctx_ = nullptr;
  std::vector<std::unique_ptr<Network>> networks_;  // Of this communicator, and those split apart.
  std::vector<Member> members_;                     // This communicator, and those split off.
  std::mutex mutex_;
  std::deque<Launched> launched_;  // And not appended yet.
  std::size_t operations_ = 0;     // To run.
  ProxyArgsPool pool_;
  std::mt19937_64 random_;
  std::size_t busy_ = 0;
  std::size_t moved_ = 0;  // Calls issued or done.
  std::size_t left_ = 0;
  ProxyThread progress_thread_;
};

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_COLLNET_PROXY_H_
