#include "ring/one_sided.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <string>

#include "ring/factory.h"
#include "ring/mesh_parts.h"

namespace ringpress::ring {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBusySlice{20};   // While connections may have to be made.
constexpr milliseconds kIdleSlice{500};  // Else events wake it.
constexpr milliseconds kLeavePatience{2000};

/// Both sides of a connection count the puts that cross it.
FrameLabel label_of(std::uint64_t number, std::uint32_t step, std::uint64_t bytes) {
  FrameLabel label;
  label.call.sequence = number;
  label.call.count = bytes;
  label.call.kind = CollectiveKind::kSendRecv;
  label.call.dtype = DType::kUint8;
  label.step = step;
  return label;
}

void fill(MeshRequest& request, std::size_t peer, const FrameLabel& label) {
  request.peer = peer;
  request.label = label;
  request.inner = nullptr;
  request.done = false;
}

}  // namespace

OneSidedMesh::OneSidedMesh(MeshParts parts, const OneSidedLimits& limits)
    : parts_(std::move(parts)),
      board_(limits),
      incoming_(parts_.endpoints.size()),
      sent_puts_(parts_.endpoints.size()),
      last_moved_(Clock::now()),
      thread_([this] { run(); }) {}

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
  if (put.peer == parts_.rank) return put_here(header, put);
  Outgoing outgoing;
  outgoing.header = header;
  outgoing.head.direction = MeshRequest::Direction::kSend;
  outgoing.head.peer = static_cast<std::size_t>(put.peer);
  outgoing.head.source = ConstBuffer(&outgoing.header, sizeof outgoing.header);
  outgoing.body.direction = MeshRequest::Direction::kSend;
  outgoing.body.source = put.source;
  std::unique_lock lock(mutex_);
  if (ended_) return failure_.status();
  queue_.push_back(&outgoing);
  parts_.reactor->wake();
  changed_.wait(lock, [&outgoing] { return outgoing.done; });
  return outgoing.status;
}

Status OneSidedMesh::put_here(const PutHeader& header, const Put& put) {
  if (failure_.has_failed()) return failure_.status();
  if (header.bytes > 0) {
    RINGPRESS_ASSIGN_OR_RETURN(std::byte* const into, board_.begin_write(parts_.rank, header));
    std::memmove(into, put.source.data, header.bytes);
    board_.end_write(header.window);
  }
  return board_.add_signal(parts_.rank, put.signal);
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
  for (Outgoing* outgoing : under_way_) tell(*outgoing, status);
  for (Outgoing* outgoing : queue_) tell(*outgoing, status);
  changed_.notify_all();
}

void OneSidedMesh::tell(Outgoing& outgoing, const Status& status) {
  outgoing.status = status;
  outgoing.done = true;
}

Status OneSidedMesh::serve() {
  for (;;) {
    std::vector<Outgoing*> fresh;
    bool ending = false;
    {
      const std::lock_guard lock(mutex_);
      fresh.swap(queue_);
      ending = ending_;
    }
    for (Outgoing* outgoing : fresh) under_way_.push_back(outgoing);
    if (failure_.has_failed()) return failure_.status();
    for (Outgoing* outgoing : fresh) RINGPRESS_RETURN_IF_ERROR(start(*outgoing));
    RINGPRESS_RETURN_IF_ERROR(connections_.advance());
    RINGPRESS_ASSIGN_OR_RETURN(const bool has_come, take_from_all());
    RINGPRESS_ASSIGN_OR_RETURN(const bool has_gone, conclude_sent());
    if (ending && under_way_.empty()) {
      leave();
      return Status::ok();
    }
    RINGPRESS_RETURN_IF_ERROR(check_progress());
    if (!has_come && !has_gone) sleep();
  }
}

Status OneSidedMesh::start(Outgoing& outgoing) {
  const std::size_t peer = outgoing.head.peer;
  const std::uint64_t number = sent_puts_[peer]++;
  if (under_way_.size() == 1) last_moved_ = Clock::now();  // It was idle.
  fill(outgoing.head, peer, label_of(number, 0, 0));
  fill(outgoing.body, peer, label_of(number, 1, outgoing.header.bytes));
  outgoing.body.done = outgoing.header.bytes == 0;
  RINGPRESS_RETURN_IF_ERROR(connections_.start(outgoing.head));
  return outgoing.body.done ? Status::ok() : connections_.start(outgoing.body);
}

Result<bool> OneSidedMesh::conclude_sent() {
  bool any = false;
  for (Outgoing* outgoing : under_way_) {
    RINGPRESS_RETURN_IF_ERROR(connections_.test(outgoing->head));
    RINGPRESS_RETURN_IF_ERROR(connections_.test(outgoing->body));
    if (!outgoing->head.done || !outgoing->body.done) continue;
    any = true;
  }
  if (!any) return false;
  const std::lock_guard lock(mutex_);
  std::erase_if(under_way_, [this](Outgoing* outgoing) {
    const bool done = outgoing->head.done && outgoing->body.done;
    if (done) tell(*outgoing, Status::ok());  // It may be gone as soon as the lock is.
    return done;
  });
  changed_.notify_all();
  return true;
}

Result<bool> OneSidedMesh::take_from_all() {
  bool any = false;
  for (std::size_t peer = 0; peer < incoming_.size(); ++peer) {
    RINGPRESS_ASSIGN_OR_RETURN(const bool took, take_from(peer));
    any = any || took;
  }
  return any;
}

Result<bool> OneSidedMesh::take_from(std::size_t peer) {
  Incoming& from = incoming_[peer];
  switch (from.state) {
    case Incoming::State::kLeft:
      return false;
    case Incoming::State::kNotConnected:
      if (!connections_.has_let_in(peer)) return false;
      RINGPRESS_RETURN_IF_ERROR(await_head(peer));
      return true;
    case Incoming::State::kHead:
      RINGPRESS_RETURN_IF_ERROR(connections_.test(from.request));
      if (!from.request.done) return false;
      if (from.header.kind == PutHeader::Kind::kLeaving) {
        from.state = Incoming::State::kLeft;
        return true;
      }
      if (from.header.bytes > 0) {
        RINGPRESS_RETURN_IF_ERROR(await_body(peer));
        return true;
      }
      break;
    case Incoming::State::kBody:
      RINGPRESS_RETURN_IF_ERROR(connections_.test(from.request));
      if (!from.request.done) return false;
      board_.end_write(from.header.window);
      break;
  }
  RINGPRESS_RETURN_IF_ERROR(
      board_.add_signal(static_cast<int>(peer), {from.header.context, from.header.signal}));
  ++from.puts;
  RINGPRESS_RETURN_IF_ERROR(await_head(peer));
  return true;
}

Status OneSidedMesh::await_head(std::size_t peer) {
  Incoming& from = incoming_[peer];
  from.state = Incoming::State::kHead;
  from.request.direction = MeshRequest::Direction::kReceive;
  from.request.into = Buffer{};
  from.request.into.data = reinterpret_cast<std::byte*>(&from.header);
  from.request.into.bytes = sizeof from.header;
  fill(from.request, peer, label_of(from.puts, 0, 0));
  return connections_.start(from.request);
}

Status OneSidedMesh::await_body(std::size_t peer) {
  Incoming& from = incoming_[peer];
  RINGPRESS_ASSIGN_OR_RETURN(from.request.into.data,
                             board_.begin_write(static_cast<int>(peer), from.header));
  from.state = Incoming::State::kBody;
  from.request.into.bytes = from.header.bytes;
  fill(from.request, peer, label_of(from.puts, 1, from.header.bytes));
  return connections_.start(from.request);
}

Status OneSidedMesh::check_progress() {
  const TransportCounters counters = parts_.counters();
  const std::uint64_t moved = counters.sent_bytes + counters.received_bytes;
  const Deadline now = Clock::now();
  if (moved != moved_bytes_ || under_way_.empty()) {
    moved_bytes_ = moved;
    last_moved_ = now;
  }
  if (now < last_moved_ + parts_.timeout) return Status::ok();
  return Status(Code::kTimeout, "rank " + std::to_string(parts_.rank) + " waited " +
                                    std::to_string(parts_.timeout.count()) + " ms for rank " +
                                    std::to_string(under_way_.front()->head.peer) +
                                    " to take what is put there");
}

void OneSidedMesh::sleep() {
  const bool is_busy = connections_.is_connecting() || !under_way_.empty();
  parts_.any_transport().wait(Clock::now() + (is_busy ? kBusySlice : kIdleSlice));
}

/// Best effort: who has gone before has nothing to wait for.
void OneSidedMesh::leave() {
  for (std::size_t peer = 0; peer < incoming_.size(); ++peer) {
    if (!connections_.has_reached(peer)) continue;
    auto word = std::make_unique<Outgoing>();
    word->header.kind = PutHeader::Kind::kLeaving;
    word->head.direction = MeshRequest::Direction::kSend;
    word->head.peer = peer;
    word->head.source = ConstBuffer(&word->header, sizeof word->header);
    if (start(*word).is_ok()) words_.push_back(std::move(word));
  }
  const Deadline until = Clock::now() + std::min(parts_.timeout, kLeavePatience);
  const auto is_sent = [this](const auto& word) {
    return !connections_.test(word->head).is_ok() || word->head.done;
  };
  while (Clock::now() < until && !std::all_of(words_.begin(), words_.end(), is_sent)) {
    if (!connections_.advance().is_ok() || !take_from_all().is_ok()) return;
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
