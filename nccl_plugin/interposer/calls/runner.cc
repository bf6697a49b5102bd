#include "nccl_plugin/interposer/calls/runner.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "nccl_plugin/errors/firewall.h"
#include "nccl_plugin/errors/warn_once.h"
#include "nccl_plugin/interposer/calls/number_exchange.h"
#include "nccl_plugin/interposer/last_error.h"
#include "nccl_plugin/session/live/nvtx_range.h"
#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

/// An error of ours as NCCL's, after a line about it if there is memory for one.
ncclResult_t report(const Status& status) noexcept {
  if (status.is_ok()) return ncclSuccess;
  static_cast<void>(catch_all([&status] {
    const std::string text = "a compressed call failed: " + status.message();
    log_line(LogLevel::kWarn, "%s", text.c_str());
    set_last_error("ringpress: " + text);
    return Status::ok();
  }));
  return to_nccl_result(status.code());
}

/// The calls of one communicator, the first of which is running.
struct Queue {
  std::shared_ptr<Comm> comm;
  CallVector<PlannedCall> calls;
  std::size_t first = 0;  // Of those that have not ended.
  StreamCallPointer running;
  std::size_t step = 0;
  std::chrono::steady_clock::time_point started;
  WhyExact exact_because;  // If it is made by the real library, as ranks have found here.

  bool is_done() const { return first == calls.size(); }
  const PlannedCall& planned() const { return calls[first]; }
  const Call& call() const { return planned().call; }
  /// Why it is made by the real library, if it is. Of a call that has begun.
  const WhyExact& why_exact() const {
    const bool has_begun = exact_because.reason == ExactReason::kNone;
    return has_begun ? comm->starter().exact_because() : exact_because;
  }
  /// Of a call that has begun.
  const char* codec() const {
    const PreparedCodec* const codec = comm->parts().codec_of(call(), planned().decision);
    const bool is_exact = codec == nullptr || why_exact().reason != ExactReason::kNone;
    return is_exact ? "none" : codec->of_tensor().specification().c_str();
  }
};

void show(const Call& call, NvtxCall* shown) {
  shown->begin(call.kind, call.count * dtype_size(static_cast<DType>(call.dtype)));
}

/// Whether a call that may be put off is sent, and with what, is not known yet.
void show_codec(const Queue& begun, NvtxCall* shown) {
  if (!begun.planned().may_be_put_off) shown->make_with(begun.codec());
}

/// All communicators of one clique in this thread.
class Clique {
 public:
  Clique(const ringpressRealNccl& real, std::uint64_t number) : real_(&real), number_(number) {}

  void add(const AcceptedCall& accepted) {
    auto queue = std::find_if(queues_.begin(), queues_.end(),
                              [&](const Queue& known) { return known.comm == accepted.comm; });
    if (queue == queues_.end()) {
      queue = queues_.emplace(queue);
      queue->comm = accepted.comm;
    }
    queue->calls.push_back(accepted.planned);
  }
  std::uint64_t number() const { return number_; }

  ncclResult_t run() noexcept {
    ncclResult_t result = ncclSuccess;
    NvtxCall shown(NvtxDomain::find(queues_.front().comm->parts().settings));
    const Status ran = catch_all([&] {
      while (!queues_.empty() && result == ncclSuccess) {
        result = take_step(&shown);
        std::erase_if(queues_, [](const Queue& queue) { return queue.is_done(); });
      }
      return Status::ok();
    });
    return ran.is_ok() ? result : own(ran);
  }

  /// Nothing of it is run: other ranks would wait for it.
  void give_up(ncclResult_t failure) noexcept {
    for (Queue& queue : queues_) queue.comm->lifetime().give_up(failure);
  }

 private:
  /// `shown`: as all its communicators make the same call, what the thread asks for has the ranges
  /// of the first one's.
  ncclResult_t take_step(NvtxCall* shown) {
    const bool begins = queues_.front().running == nullptr;
    if (begins && shown->is_shown()) show(queues_.front().call(), shown);
    ncclResult_t result = begin_calls();
    if (result == ncclSuccess && begins && shown->is_shown()) show_codec(queues_.front(), shown);
    if (result != ncclSuccess) return result;
    bool exchanges = false;
    for (Queue& queue : queues_) {
      result = own(catch_all([&] { return queue.running->prepare(queue.step); }));
      if (result != ncclSuccess) return result;
      exchanges |= queue.running->exchanges(queue.step);
    }
    if (exchanges) result = exchange();
    if (result != ncclSuccess) return result;
    for (Queue& queue : queues_) {
      result = own(catch_all([&] { return conclude(queue); }));
      if (result != ncclSuccess) return result;
    }
    if (queues_.front().running == nullptr) shown->end();
    return ncclSuccess;
  }

  /// An error of ours: other ranks would wait for what these communicators do not do any more.
  ncclResult_t own(const Status& status) noexcept {
    const ncclResult_t result = report(status);
    if (result != ncclSuccess) give_up(result);
    return result;
  }

  /// Begins the next call of each communicator that has none under way.
  ncclResult_t begin_calls() {
    CallVector<Queue*> asking;
    CallVector<Status> could;
    for (Queue& queue : queues_) {
      if (queue.running != nullptr) continue;
      const Status settled = catch_all([&] { return settle(queue); });
      if (!settled.is_ok()) return own(settled);
      const bool asks = queue.comm->planner().needs_agreement(queue.planned());
      const Status started = catch_all([&] { return begin(queue); });
      if (asks) {
        asking.push_back(&queue);
        could.push_back(started);
      } else if (!started.is_ok()) {
        return own(started);
      }
    }
    if (!asking.empty()) {
      const ncclResult_t agreed = own(catch_all([&] { return agree(asking, could); }));
      if (agreed != ncclSuccess) return agreed;
    }
    return own(catch_all([&] { return add_votes(); }));
  }

  Status settle(Queue& queue) {
    PlannedCall& next = queue.calls[queue.first];
    const CallsWithOptions with_options(next.call.options);
    return queue.comm->planner().settle(&next);
  }

  /// To calls that have begun, however they are made in the end.
  Status add_votes() {
    for (Queue& queue : queues_) {
      PlannedCall& planned = queue.calls[queue.first];
      if (!std::exchange(planned.votes, false)) continue;
      CallClassifier& classifier = queue.comm->planner().classifier();
      RINGPRESS_RETURN_IF_ERROR(classifier.add_vote(planned.call, &queue.running));
    }
    return Status::ok();
  }

  Status begin(Queue& queue) {
    queue.started = std::chrono::steady_clock::now();
    queue.step = 0;
    queue.exact_because = {};
    const CallsWithOptions with_options(queue.planned().call.options);
    RINGPRESS_ASSIGN_OR_RETURN(queue.running, queue.comm->starter().start(queue.planned()));
    return Status::ok();
  }

  /// Every rank tells the others whether it could begin. Where one could not, none does.
  Status agree(const CallVector<Queue*>& asking, const CallVector<Status>& could) {
    std::vector<NumberExchange> exchanges;
    for (std::size_t i = 0; i < asking.size(); ++i) {
      Comm& comm = *asking[i]->comm;
      exchanges.push_back(
          {comm.handle(), &comm.exchange(), {could[i].is_ok() ? 1 : 0}, &comm.lifetime().watch()});
    }
    RINGPRESS_RETURN_IF_ERROR(exchange_among(asking, exchanges));
    for (std::size_t i = 0; i < asking.size(); ++i) {
      Queue& queue = *asking[i];
      const std::vector<std::int32_t>& numbers = exchanges[i].numbers;
      const auto unable = std::find(numbers.begin(), numbers.end(), 0);
      const bool all_can = unable == numbers.end();
      queue.comm->planner().note_agreement(queue.planned(), all_can);
      if (all_can) continue;
      const auto rank = static_cast<std::uint32_t>(unable - numbers.begin());
      queue.exact_because = could[i].is_ok() ? WhyExact{ExactReason::kNoMemoryOnRank, rank, {}}
                                             : queue.comm->starter().why_not_begun(could[i]);
      warn_once("calls are left to plain NCCL: " + to_text(queue.exact_because));
      queue.running = make_exact_call(*real_, queue.call());
    }
    return Status::ok();
  }

  /// No communicator is touched that another thread has given up.
  Status exchange_among(const CallVector<Queue*>& asking, std::vector<NumberExchange>& exchanges) {
    CallVector<Comm*> inside;
    for (const Queue* queue : asking) {
      if (queue->comm->lifetime().enter()) inside.push_back(queue->comm.get());
    }
    if (inside.size() == asking.size()) exchange_numbers(*real_, exchanges);
    for (Comm* comm : inside) comm->lifetime().leave();
    if (inside.size() < asking.size()) {
      return {Code::kAborted, "a communicator was given up while a call of it began"};
    }
    for (const NumberExchange& one : exchanges) RINGPRESS_RETURN_IF_ERROR(one.status);
    return Status::ok();
  }

  /// One group of the real library. Communicators that another thread has given up are not touched.
  ncclResult_t exchange() {
    CallVector<Comm*> inside;
    inside.reserve(queues_.size());  // Nothing is thrown within a group: it would never end.
    Status given_up;
    ncclResult_t result = of_real(real_->GroupStart());
    if (result != ncclSuccess) return result;
    for (Queue& queue : queues_) {
      if (!queue.running->exchanges(queue.step)) continue;
      if (!queue.comm->lifetime().enter()) {
        given_up = {Code::kAborted, "the communicator was given up while it ran"};
        break;
      }
      inside.push_back(queue.comm.get());
      result = queue.running->exchange(queue.step);
      if (result != ncclSuccess) break;
    }
    const ncclResult_t ended = real_->GroupEnd();
    for (Comm* comm : inside) comm->lifetime().leave();
    if (!given_up.is_ok()) return report(given_up);
    return of_real(result != ncclSuccess ? result : ended);
  }

  Status conclude(Queue& queue) {
    if (queue.running->exchanges(queue.step)) {
      RINGPRESS_RETURN_IF_ERROR(queue.running->conclude(queue.step));
    }
    if (++queue.step < queue.running->steps()) return Status::ok();
    const WhyExact& exact_because = queue.why_exact();
    const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - queue.started;
    if (exact_because.reason == ExactReason::kNone) {
      queue.comm->starter().finish(*queue.running, taken);
    } else {
      queue.comm->starter().count_exact(exact_because);
    }
    queue.running.reset();
    ++queue.first;
    return Status::ok();
  }

  const ringpressRealNccl* real_;
  std::uint64_t number_;
  CallVector<Queue> queues_;
};

/// In an order that is the same in all processes, whatever the order of the calls: with everybody
/// at the lowest clique that has not been done, two never wait for each other.
CallVector<Clique> sort_by_clique(const ringpressRealNccl& real,
                                  std::span<const AcceptedCall> calls) {
  CallVector<Clique> cliques;
  for (const AcceptedCall& call : calls) {
    const std::uint64_t number = call.comm->identity().clique;
    auto clique = std::find_if(cliques.begin(), cliques.end(),
                               [number](const Clique& known) { return known.number() >= number; });
    if (clique == cliques.end() || clique->number() != number) {
      clique = cliques.emplace(clique, real, number);
    }
    clique->add(call);
  }
  return cliques;
}

}  // namespace

ncclResult_t run_calls(const ringpressRealNccl& real,
                       std::span<const AcceptedCall> calls) noexcept {
  ncclResult_t result = ncclSuccess;
  const Status sorted = catch_all([&] {
    CallVector<Clique> cliques = sort_by_clique(real, calls);
    for (Clique& clique : cliques) {
      if (result == ncclSuccess) {
        result = clique.run();
      } else {
        clique.give_up(result);
      }
    }
    return Status::ok();
  });
  if (sorted.is_ok()) return result;
  result = report(sorted);
  for (const AcceptedCall& call : calls) call.comm->lifetime().give_up(result);
  return result;
}

}  // namespace ringpress::nccl_plugin::interposer
