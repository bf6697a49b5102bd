#include "ring/one_sided.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "ring/factory.h"
#include "ring/mesh_parts.h"

namespace ringpress::ring {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBusySlice{20};   // While connections may have to be made.
constexpr milliseconds kIdleSlice{500};  // Else events wake it.
constexpr milliseconds kLeavePatience{2000};

/// Of a rank to itself.
Status put_here(SignalBoard& board, const PutHeader& header, const Put& put) {
  if (header.bytes > 0) {
    RINGPRESS_ASSIGN_OR_RETURN(std::byte* const into, board.begin_write(put.peer, header));
    std::memmove(into, put.source.data, header.bytes);
    board.end_write(header.window);
  }
  return board.add_signal(put.peer, put.signal);
}

void tell(OutgoingPut& put, const Status& status) {
  put.status = status;
  put.done = true;
}

}  // namespace

OneSidedMesh::OneSidedMesh(MeshParts parts, const OneSidedLimits& limits)
    : parts_(std::move(parts)), board_(limits), thread_([this] { run(); }) {}

OneSidedMesh::~OneSidedMesh() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  parts_.reactor->wake();
  thread_.join();
}

Status OneSidedMesh::put(const Put& put) {
  PutHeader header;
  header.offset = put.offset;
  header.bytes = put.source.bytes;
  header.window = put.window;
  header.context = put.signal.context;
  header.signal = put.signal.index;
  if (put.peer == parts_.rank) {
    return failure_.has_failed() ? failure_.status() : put_here(board_, header, put);
  }
  OutgoingPut outgoing(static_cast<std::size_t>(put.peer), header, put.source);
  std::unique_lock lock(mutex_);
  if (ended_) return failure_.status();
  asked_.puts.push_back(&outgoing);
  parts_.reactor->wake();
  changed_.wait(lock, [&outgoing] { return outgoing.done; });
  return outgoing.status;
}

Status OneSidedMesh::wait(std::span<const AwaitedSignals> signals) {
  {
    const std::lock_guard lock(mutex_);
    for (const AwaitedSignals& awaited : signals) {
      if (awaited.peer != parts_.rank)
        asked_.awaited.push_back(static_cast<std::size_t>(awaited.peer));
    }
  }
  parts_.reactor->wake();
  return board_.wait(signals, parts_.timeout);
}

void OneSidedMesh::abort(const Status& reason) {
  failure_.latch(reason);
  board_.fail(failure_.status());
  parts_.reactor->wake();
}

// --- the thread that serves ---

void OneSidedMesh::run() {
  Status status;
  try {
    status = serve();
  } catch (const std::exception& error) {
    status = Status(Code::kSystem, std::string("one-sided calls: ") + error.what());
  }
  if (status.is_ok()) {
    connections_.say_goodbye();
    status = Status(Code::kInvalidUsage, "the communicator has ended");
  } else {
    // Before anybody hears of it: what puts send from must not change until then.
    status = failure_.fail(status);
  }
  board_.fail(status);
  board_.stop_writes();
  const std::lock_guard lock(mutex_);
  failure_.latch(status);
  ended_ = true;
  for (OutgoingPut* outgoing : outgoing_.under_way()) tell(*outgoing, status);
  for (OutgoingPut* outgoing : asked_.puts) tell(*outgoing, status);
  changed_.notify_all();
}

Status OneSidedMesh::serve() {
  for (;;) {
    RINGPRESS_ASSIGN_OR_RETURN(const bool may_come_more, start_queued());
    RINGPRESS_RETURN_IF_ERROR(connections_.advance());
    RINGPRESS_ASSIGN_OR_RETURN(const bool has_come, incoming_.take());
    RINGPRESS_ASSIGN_OR_RETURN(const bool has_gone, conclude_sent());
    if (!may_come_more && outgoing_.under_way().empty()) {
      leave();
      return Status::ok();
    }
    RINGPRESS_RETURN_IF_ERROR(check_progress());
    if (!has_come && !has_gone) sleep();
  }
}

Result<bool> OneSidedMesh::start_queued() {
  if (failure_.has_failed()) return failure_.status();
  Asked fresh;
  bool ending = false;
  {
    const std::lock_guard lock(mutex_);
    fresh = std::exchange(asked_, {});
    ending = ending_;
  }
  if (outgoing_.under_way().empty()) last_move_.when = Clock::now();  // It was idle.
  RINGPRESS_RETURN_IF_ERROR(outgoing_.start(fresh.puts));
  for (const std::size_t peer : fresh.awaited) RINGPRESS_RETURN_IF_ERROR(incoming_.expect(peer));
  return !ending;
}

Result<bool> OneSidedMesh::conclude_sent() {
  RINGPRESS_ASSIGN_OR_RETURN(const std::vector<OutgoingPut*> sent, outgoing_.take_sent());
  if (sent.empty()) return false;
  const std::lock_guard lock(mutex_);
  for (OutgoingPut* put : sent) tell(*put, Status::ok());  // It may be gone as soon as the lock is.
  changed_.notify_all();
  return true;
}

Status OneSidedMesh::check_progress() {
  const TransportCounters counters = parts_.counters();
  const std::uint64_t moved = counters.sent_bytes + counters.received_bytes;
  const Deadline now = Clock::now();
  if (moved != last_move_.bytes || outgoing_.under_way().empty()) {
    last_move_ = {moved, now};
  }
  if (now < last_move_.when + parts_.timeout) return Status::ok();
  return Status(Code::kTimeout, "rank " + std::to_string(parts_.rank) + " waited " +
                                    std::to_string(parts_.timeout.count()) + " ms for rank " +
                                    std::to_string(outgoing_.under_way().front()->head.peer) +
                                    " to take what is put there");
}

void OneSidedMesh::sleep() {
  const bool is_busy = connections_.is_connecting() || !outgoing_.under_way().empty();
  parts_.any_transport().wait(Clock::now() + (is_busy ? kBusySlice : kIdleSlice));
}

void OneSidedMesh::leave() {
  outgoing_.start_leaving();
  const Deadline until = Clock::now() + std::min(parts_.timeout, kLeavePatience);
  while (Clock::now() < until && !outgoing_.has_left()) {
    if (!connections_.advance().is_ok() || !incoming_.take().is_ok()) return;
    parts_.any_transport().wait(std::min(until, Clock::now() + kBusySlice));
  }
}

Result<std::unique_ptr<OneSided>> make_one_sided(const MeshOptions& options,
                                                 const OneSidedLimits& limits) {
  try {
    RINGPRESS_ASSIGN_OR_RETURN(MeshParts parts, meet_and_listen(options));
    return std::unique_ptr<OneSided>(std::make_unique<OneSidedMesh>(std::move(parts), limits));
  } catch (const std::exception& error) {
    return Status(Code::kSystem, std::string("cannot make one-sided calls: ") + error.what());
  }
}

}  // namespace ringpress::ring
