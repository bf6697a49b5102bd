#include "nccl_plugin/interposer/runner.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <list>

#include "nccl_plugin/firewall.h"
#include "ringpress/log.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

/// An error of ours as NCCL's, after a line about it.
ncclResult_t report(const Status& status) {
  if (status.is_ok()) return ncclSuccess;
  log_line(LogLevel::kWarn, "a compressed call failed: %s", status.message().c_str());
  return to_nccl_result(status.code());
}

/// The calls of one communicator, the first of which is running.
struct Queue {
  std::shared_ptr<Comm> comm;
  std::deque<Call> calls;
  std::unique_ptr<StreamCall> running;
  std::size_t step = 0;
  std::chrono::steady_clock::time_point started;
};

/// All communicators of one clique in this thread.
class Clique {
 public:
  explicit Clique(const ringpressRealNccl& real) : real_(real) {}

  void add(AcceptedCall accepted) {
    for (Queue& queue : queues_) {
      if (queue.comm == accepted.comm) return queue.calls.push_back(accepted.call);
    }
    queues_.push_back({std::move(accepted.comm), {accepted.call}, nullptr, 0, {}});
  }
  std::uint64_t number() const { return queues_.front().comm->clique(); }

  ncclResult_t run() {
    while (!queues_.empty()) {
      const ncclResult_t result = take_step();
      if (result != ncclSuccess) return result;
      std::erase_if(queues_, [](const Queue& queue) { return queue.calls.empty(); });
    }
    return ncclSuccess;
  }

 private:
  ncclResult_t take_step() {
    bool exchanges = false;
    for (Queue& queue : queues_) {
      const ncclResult_t result = report(catch_all([&] { return prepare(queue); }));
      if (result != ncclSuccess) return result;
      exchanges |= queue.running->exchanges(queue.step);
    }
    if (exchanges) {
      const ncclResult_t result = exchange();
      if (result != ncclSuccess) return result;
    }
    for (Queue& queue : queues_) {
      const ncclResult_t result = report(catch_all([&] { return conclude(queue); }));
      if (result != ncclSuccess) return result;
    }
    return ncclSuccess;
  }

  Status prepare(Queue& queue) {
    if (queue.running == nullptr) {
      queue.started = std::chrono::steady_clock::now();
      RINGPRESS_ASSIGN_OR_RETURN(queue.running, queue.comm->start(queue.calls.front()));
      queue.step = 0;
    }
    return queue.running->prepare(queue.step);
  }

  /// One group of the real library. Communicators that another thread has given up are not touched.
  ncclResult_t exchange() {
    std::vector<Comm*> inside;
    ncclResult_t result = real_.GroupStart();
    if (result != ncclSuccess) return result;
    for (Queue& queue : queues_) {
      if (!queue.running->exchanges(queue.step) || result != ncclSuccess) continue;
      if (!queue.comm->enter()) {
        result = ncclRemoteError;
        log_line(LogLevel::kWarn, "a communicator was given up while a call of it ran");
        continue;
      }
      inside.push_back(queue.comm.get());
      result = queue.running->exchange(queue.step);
    }
    const ncclResult_t ended = real_.GroupEnd();
    for (Comm* comm : inside) comm->leave();
    return result != ncclSuccess ? result : ended;
  }

  Status conclude(Queue& queue) {
    if (queue.running->exchanges(queue.step)) {
      RINGPRESS_RETURN_IF_ERROR(queue.running->conclude(queue.step));
    }
    if (++queue.step < queue.running->steps()) return Status::ok();
    const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - queue.started;
    queue.comm->finish(*queue.running, static_cast<std::uint64_t>(taken.count()));
    queue.running.reset();
    queue.calls.pop_front();
    return Status::ok();
  }

  const ringpressRealNccl& real_;
  std::vector<Queue> queues_;
};

}  // namespace

ncclResult_t run_calls(const ringpressRealNccl& real, std::vector<AcceptedCall> calls) {
  std::list<Clique> cliques;
  const Status sorted = catch_all([&] {
    for (AcceptedCall& call : calls) {
      const std::uint64_t number = call.comm->clique();
      auto clique = std::find_if(cliques.begin(), cliques.end(), [number](const Clique& known) {
        return known.number() == number;
      });
      if (clique == cliques.end()) clique = cliques.emplace(clique, real);
      clique->add(std::move(call));
    }
    return Status::ok();
  });
  // In an order that is the same in all processes, whatever the order of the calls: with everybody
  // at the lowest clique that has not been done, two never wait for each other.
  cliques.sort([](const Clique& a, const Clique& b) { return a.number() < b.number(); });
  ncclResult_t result = report(sorted);
  for (Clique& clique : cliques) {
    if (result == ncclSuccess) result = clique.run();
  }
  return result;
}

}  // namespace ringpress::nccl_plugin::interposer
