#include "nccl_plugin/session/mesh/mesh_state.h"

#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "nccl_plugin/session/state/state_agreement.h"
#include "nccl_plugin/session/state/state_file.h"
#include "ringpress/internal/hash.h"
#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin {
namespace {

// Of a state: lines that ranks compare, and their characters.
constexpr std::uint64_t kMostLines = 1024;
constexpr std::uint64_t kLongestLine = std::uint64_t{1} << 16;

constexpr std::uint64_t kNewcomersHash = 0x6e6577636f6d6572;

std::uint64_t hash_of_shared(const std::vector<std::byte>& bytes) {
  std::uint64_t hash = 0;
  for (const std::byte byte : bytes) hash = combine_hash(hash, std::to_integer<unsigned>(byte));
  return hash;
}

/// Empty: they are the same.
std::string difference_of_lines(const std::vector<std::string>& theirs,
                                const std::vector<std::string>& ours) {
  if (theirs.size() != ours.size()) return "it is of other settings";
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (theirs[i] != ours[i]) return "it is of " + theirs[i] + ", and this job of " + ours[i];
  }
  return {};
}

}  // namespace

/// What a file has, before the ranks have agreed to take it.
struct MeshState::Loaded {
  explicit Loaded(MeshSession& session)
      : advice(session),
        feedback(session.settings.feedback_limit_bytes, host_residual_memory(), calls),
        scales(calls, session.settings.feedback_limit_bytes) {}

  void refuse(StateOutcome with, std::string why) {
    outcome = with;
    reason = std::move(why);
  }

  StateOutcome outcome = StateOutcome::kLoaded;
  std::string reason;
  std::uint64_t shared_hash = 0;
  std::uint64_t sequence = 0;
  Recurrences recurrences;
  KnownClasses classes;
  KeptAdvice advice;
  std::shared_ptr<CallSequence> calls = std::make_shared<CallSequence>();
  SliceTurns slice_turns{calls};
  ErrorFeedback feedback;
  std::uint64_t scales_hash = 0;
  CoordinateScales scales;
};

void MeshState::write_owner(StateWriter& to) const {
  to.put<std::uint64_t>(static_cast<std::uint64_t>(session_.rank()));
  to.put<std::uint64_t>(static_cast<std::uint64_t>(session_.size()));
  const std::vector<std::string> lines = agreement_lines(session_.settings);
  to.put<std::uint64_t>(lines.size());
  for (const std::string& line : lines) to.put_text(line);
}

void MeshState::read_owner(StateReader& from, Loaded* loaded) const {
  const auto rank = from.get<std::uint64_t>();
  const auto size = from.get<std::uint64_t>();
  std::vector<std::string> lines(from.get_count(sizeof(std::uint64_t), kMostLines));
  for (std::string& line : lines) line = from.get_text(kLongestLine);
  if (!from.is_ok()) return;
  const std::string difference = difference_of_lines(lines, agreement_lines(session_.settings));
  if (size != static_cast<std::uint64_t>(session_.size())) {
    loaded->refuse(StateOutcome::kOtherSize, "it is of " + std::to_string(size) +
                                                 " ranks, and these are " +
                                                 std::to_string(session_.size()));
  } else if (rank != static_cast<std::uint64_t>(session_.rank())) {
    loaded->refuse(StateOutcome::kOtherJob, "it is of rank " + std::to_string(rank));
  } else if (!difference.empty()) {
    loaded->refuse(StateOutcome::kOtherJob, difference);
  }
}

void MeshState::write_shared(StateWriter& to) const {
  to.put(session_.mesh->root_word());
  to.put(session_.sequence);
  CallClasses& classes = calls_.class_votes().classes();
  classes.recurrences().save(to);
  classes.known().save(to);
  calls_.slice_turns().save(to);
  to.put(calls_.scales().hash());
  session_.call_sequence->save_shapes(to);
  calls_.advisers().kept().save(to);
}

void MeshState::read_shared(StateReader& from, Loaded* loaded) const {
  // Files of one run have the same word. This run has its own, which it does not give up.
  static_cast<void>(from.get<std::uint32_t>());
  loaded->sequence = from.get<std::uint64_t>();
  loaded->recurrences.load(from);
  loaded->classes.load(from);
  loaded->slice_turns.load(from);
  loaded->scales_hash = from.get<std::uint64_t>();
  loaded->calls->load_shapes(from);
  loaded->advice.load(from);
  from.require(from.left() == 0);
}

void MeshState::write_own(StateWriter& to) const {
  session_.call_sequence->save_buffers(to);
  session_.feedback.save(to);
  calls_.scales().save(to);
}

void MeshState::read_own(StateReader& from, StateFrom whose, Loaded* loaded) {
  loaded->calls->load_buffers(from, whose);
  if (!from.is_ok()) return;
  loaded->feedback.load(from);
  loaded->scales.load(from);
  from.require(loaded->scales.hash() == loaded->scales_hash);
  from.require(from.left() == 0);
}

Status MeshState::save(const std::string& path) const {
  RINGPRESS_RETURN_IF_ERROR(session_.check_usable());
  StateBytes shared;
  write_shared(shared);
  return write_state_file(path, [&](StateWriter& to) {
    write_owner(to);
    to.put_list(shared.bytes());
    write_own(to);
  });
}

void MeshState::read_file(const std::string& path, Loaded* loaded) const {
  OpenState file = open_state_file(path);
  if (file.reader == nullptr) return loaded->refuse(file.outcome, path + ": " + file.reason);
  StateReader& from = *file.reader;
  read_owner(from, loaded);
  const std::vector<std::byte> shared = from.get_list<std::byte>();
  StateView of_shared(shared);
  if (from.is_ok() && loaded->outcome == StateOutcome::kLoaded) {
    read_shared(of_shared, loaded);
    read_own(from, StateFrom::kAnother, loaded);
  }
  loaded->shared_hash = hash_of_shared(shared);
  if (!from.is_ok() || !of_shared.is_ok()) {
    loaded->refuse(StateOutcome::kCorrupt, "it makes no sense");
  }
  if (loaded->outcome != StateOutcome::kLoaded) loaded->reason = path + ": " + loaded->reason;
}

Result<StateLoad> MeshState::agree(const Loaded& loaded) {
  const StateVerdict own = make_verdict(loaded.outcome, loaded.shared_hash, loaded.reason);
  std::vector<StateVerdict> all(static_cast<std::size_t>(session_.size()));
  RINGPRESS_RETURN_IF_ERROR(session_.decide([&] {
    return session_.peers.gather(std::as_bytes(std::span(&own, 1)),
                                 std::as_writable_bytes(std::span(all)));
  }));
  return agree_on_state(all);
}

/// What goes wrong for want of memory is this rank's verdict: the others wait for it.
template <typename Read>
void MeshState::read_safely(Loaded* loaded, Read&& read) {
  try {
    read();
  } catch (const std::bad_alloc&) {
    loaded->refuse(StateOutcome::kUnreadable, "there is no memory for it");
  }
}

Result<StateLoad> MeshState::load(const std::string& path) {
  RINGPRESS_RETURN_IF_ERROR(session_.check_usable());
  Loaded loaded(session_);
  read_safely(&loaded, [&] { read_file(path, &loaded); });
  RINGPRESS_ASSIGN_OR_RETURN(const StateLoad load, agree(loaded));
  if (load.outcome == StateOutcome::kLoaded) {
    adopt(std::move(loaded));
  } else if (session_.rank() == 0) {
    log_line(LogLevel::kWarn, "no state is loaded, and error feedback begins anew: rank %d: %s",
             load.rank, load.reason.c_str());
  }
  return load;
}

void MeshState::read_parent(const MeshState* parent, Loaded* loaded) const {
  if (parent == nullptr) return loaded->refuse(StateOutcome::kMissing, "there is none");
  const std::string difference = difference_of_lines(agreement_lines(parent->session_.settings),
                                                     agreement_lines(session_.settings));
  if (!difference.empty()) return loaded->refuse(StateOutcome::kOtherJob, difference);
  StateBytes shared, own;
  parent->write_shared(shared);
  parent->write_own(own);
  loaded->shared_hash = hash_of_shared(shared.bytes());
  StateView of_shared(shared.bytes());
  StateView of_own(own.bytes());
  read_shared(of_shared, loaded);
  read_own(of_own, StateFrom::kThisProcess, loaded);
  if (!of_shared.is_ok() || !of_own.is_ok()) {
    loaded->refuse(StateOutcome::kCorrupt, "it makes no sense");
  }
}

Status MeshState::inherit(const CommunicatorState* parent) {
  Loaded loaded(session_);
  read_safely(&loaded, [&] { read_parent(dynamic_cast<const MeshState*>(parent), &loaded); });
  return take_over(std::move(loaded));
}

/// It has nothing, and what the others have is of another number of ranks: no rank has the hash.
Status MeshState::begin_among_heirs() {
  Loaded nothing(session_);
  nothing.shared_hash = kNewcomersHash;
  return take_over(std::move(nothing));
}

Status MeshState::take_over(Loaded&& loaded) {
  RINGPRESS_ASSIGN_OR_RETURN(const StateLoad load, agree(loaded));
  if (load.outcome == StateOutcome::kLoaded) {
    adopt(std::move(loaded));
  } else if (load.outcome == StateOutcome::kOtherStep) {
    adopt_own(std::move(loaded));
  } else if (session_.rank() == 0) {
    log_line(LogLevel::kInfo, "error feedback begins anew: rank %d: %s", load.rank,
             load.reason.c_str());
  }
  return Status::ok();
}

void MeshState::adopt(Loaded&& loaded) {
  session_.sequence = loaded.sequence;
  CallClasses& classes = calls_.class_votes().classes();
  classes.recurrences() = std::move(loaded.recurrences);
  classes.known() = std::move(loaded.classes);
  calls_.slice_turns().adopt(std::move(loaded.slice_turns));
  calls_.scales().adopt(std::move(loaded.scales));
  *session_.call_sequence = std::move(*loaded.calls);
  session_.feedback.adopt(std::move(loaded.feedback));
  calls_.advisers().begin_call();
  calls_.advisers().kept().adopt(std::move(loaded.advice));
}

/// Ranks are at different calls, so nothing that has to be equal is taken.
void MeshState::adopt_own(Loaded&& loaded) {
  loaded.calls->forget_shapes();
  loaded.feedback.forget_shapes();
  *session_.call_sequence = std::move(*loaded.calls);
  session_.feedback.adopt(std::move(loaded.feedback));
}

void MeshState::give_back_memory() {
  session_.call_memory.give_back();
  session_.mesh->give_back_staging();
}

MemoryUse MeshState::memory_use() const {
  return {session_.call_memory.spare_bytes() + session_.mesh->spare_bytes(), session_.kept_bytes()};
}

}  // namespace ringpress::nccl_plugin
