#include "nccl_plugin/session/calls/call_sequence.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin {
namespace {

// Addresses differ between ranks: levels, scales, classes, warm-ups and slices do not see them.
constexpr CallUsers kByBuffer{CallUser::kFeedback, CallUser::kLazy, CallUser::kTrace,
                              CallUser::kPlan};
constexpr CallUsers kOfStates{CallUser::kFeedback, CallUser::kLazy,   CallUser::kLevels,
                              CallUser::kClass,    CallUser::kScales, CallUser::kWarmUp,
                              CallUser::kSlices};
// Told of calls that others have been told of before: nothing is judged by them.
constexpr CallUsers kLate{CallUser::kSlices};
// The least that a state has of a track.
constexpr std::size_t kSavedTrackBytes = 32;

/// Whether the sequence has come whole before the state was saved: it is this program's. (One call
/// again and again may be anybody's.)
bool began_before(const CallTrack& track) {
  const CallCycle& cycle = track.pattern.cycle();
  return cycle.has_landmark() && track.pattern.repeating() >= track.since_saved + cycle.period();
}

}  // namespace

void CallSequence::tell(const TensorCall& call, CallUsers users) {
  users.remove(told_);
  if (users.is_empty()) return;
  TensorCall seen = call;
  if (!names_.are_addresses()) {
    learn_name(call, users);
    seen = named(call);
    if (names_.has_name(call.address)) before_ = seen;
  }
  by_buffer_.observe(seen, CallUsers::common(users, kByBuffer));
  seen.address = nullptr;
  by_shape_.observe(seen, users);
  if (is_on_trial_ && !(users == kLate)) judge_state(call);
  told_.add(users);
}

TensorCall CallSequence::named(const TensorCall& call) const {
  TensorCall named = call;
  named.address = names_.name_of(call.address);
  return named;
}

/// Where the call is the next one of a sequence, but for its address, or else as it may be.
void CallSequence::learn_name(const TensorCall& call, CallUsers users) {
  if (!names_.wants_name(call.address)) return;
  for (const auto& track : by_buffer_.all()) {
    if (CallUsers::common(track->users, users).is_empty()) continue;
    const TensorCall* const expected = track->pattern.expected();
    if (expected != nullptr && has_shape_of(*expected, call)) {
      names_.learn(call.address, expected->address);
    }
    names_.guess(call, before_, track->pattern.seen());
  }
}

void CallSequence::begin_trial() {
  fitting_ = strangers_ = 0;
  before_.reset();
  std::set<const void*> buffers;
  for (const auto& track : by_buffer_.all()) {
    const auto seen = track->pattern.seen();
    for (const std::span<const TensorCall> calls : seen) {
      for (const TensorCall& call : calls) buffers.insert(call.address);
    }
    const TensorCall* const last = track->pattern.last();
    if (last != nullptr) before_ = *last;
  }
  buffers_ = buffers.size();
}

/// What a state says of tensors is dropped as soon as the calls have proven another sequence,
/// unless one that it has came before, or goes on beside strays, which is seen by buffer. A
/// sequence on other buffers (an evaluation) says nothing if most of the state's have been found
/// again.
void CallSequence::judge_state(const TensorCall& call) {
  const std::size_t one = std::exchange(is_counted_, true) ? 0 : 1;
  strangers_ = names_.has_name(call.address) ? 0 : strangers_ + one;
  const bool are_found = 2 * names_.count() >= buffers_;
  std::size_t longest = 0;  // Of the sequences that are repeated.
  bool fits = false, is_another = false;
  for (const auto& track : by_shape_.all()) {
    if (track->saved_id == 0 || track->users == kLate) continue;
    const CallCycle& cycle = track->pattern.cycle();
    if (cycle.id <= track->saved_id) {
      longest = std::max(longest, cycle.period());
    } else if (began_before(*track)) {
      fits = true;
    } else {
      is_another |= cycle.is_proven && !(are_found && strangers_ >= cycle.period());
    }
  }
  fitting_ = longest == 0 ? 0 : fitting_ + one;
  fits |= longest != 0 && fitting_ >= longest;
  is_on_trial_ = !fits && !(is_another && by_buffer_.repeat_saved());
  if (!is_on_trial_ || !is_another || by_buffer_.may_repeat_saved()) return;
  is_on_trial_ = false;
  log_line(LogLevel::kWarn,
           "the calls are not those of the state that was loaded: what it has of tensors is "
           "dropped");
  for (const CallTracks* const tracks : {&by_buffer_, &by_shape_}) {
    for (const auto& track : tracks->all()) track->pattern.forget_until(track->saved_id);
  }
}

CallPlaces CallSequence::ask(CallUser user, const TensorCall& call) {
  static const CallTrack kNone;
  if (!has_told(user)) tell(call, {user});
  told_.remove({user});
  const CallTrack* const by_buffer = by_buffer_.of(user);
  const CallTrack& buffers = by_buffer == nullptr ? kNone : *by_buffer;
  const CallTrack& shapes = *by_shape_.of(user);
  return {buffers.pattern, shapes.pattern, buffers.position, shapes.position};
}

void CallSequence::save_shapes(StateWriter& to) const {
  by_shape_.save(to);
}

void CallSequence::save_buffers(StateWriter& to) const {
  names_.save(to);
  by_buffer_.save(to);
}

void CallSequence::load_shapes(StateReader& from) {
  told_ = {};
  by_shape_.load(from);
}

void CallSequence::load_buffers(StateReader& from, StateFrom whose) {
  told_ = {};
  names_.load(from, whose);
  by_buffer_.load(from);
  is_on_trial_ = whose == StateFrom::kAnother;
  begin_trial();
}

void CallTracks::observe(const TensorCall& call, CallUsers users) {
  if (users.is_empty()) return;
  CallTrack* const shared = of_[users.first()];
  if (shared == nullptr || !(shared->users == users)) return part(call, users);
  shared->observe(call);
}

/// Of users who shared a track, those who are told of the call part from those who are not.
void CallTracks::part(const TensorCall& call, CallUsers users) {
  const std::size_t before = tracks_.size();
  for (std::size_t i = 0; i < before; ++i) {
    CallTrack* track = tracks_[i].get();
    const CallUsers told = CallUsers::common(track->users, users);
    if (told.is_empty()) continue;
    users.remove(told);
    if (!(told == track->users)) {
      CallTrack* const shared = track;
      CallTrack parted = *shared;
      parted.users = told;
      track = add(std::move(parted));
      shared->users.remove(told);
    }
    track->observe(call);
  }
  if (users.is_empty()) return;
  // It is the first call of these.
  CallTrack first;
  first.users = users;
  add(std::move(first))->observe(call);
}

bool CallTracks::repeat_saved() const {
  return std::any_of(tracks_.begin(), tracks_.end(), [](const auto& track) {
    const std::uint64_t id = track->pattern.cycle().id;
    return id != 0 && id <= track->saved_id;
  });
}

bool CallTracks::may_repeat_saved() const {
  return std::any_of(tracks_.begin(), tracks_.end(), [](const auto& track) {
    return track->pattern.may_go_on_until(track->saved_id);
  });
}

CallTrack* CallTracks::add(CallTrack track) {
  tracks_.push_back(std::make_unique<CallTrack>(std::move(track)));
  CallTrack* const added = tracks_.back().get();
  for (std::size_t user = 0; user < kCallUsers; ++user) {
    if (added->users.has(static_cast<CallUser>(user))) of_[user] = added;
  }
  return added;
}

void CallTracks::save(StateWriter& to) const {
  const auto is_saved = [](const auto& track) {
    return !CallUsers::common(track->users, kOfStates).is_empty();
  };
  to.put<std::uint64_t>(
      static_cast<std::uint64_t>(std::count_if(tracks_.begin(), tracks_.end(), is_saved)));
  // Ranks that keep other tracks besides have these in another order.
  std::set<const CallTrack*> saved;
  for (const CallTrack* const track : of_) {
    if (track == nullptr || !is_saved(track) || !saved.insert(track).second) continue;
    for (std::size_t user = 0; user < kCallUsers; ++user) {
      to.put(CallUsers::common(track->users, kOfStates).has(static_cast<CallUser>(user)));
    }
    to.put(track->position.has_value());
    to.put<std::uint64_t>(track->position.value_or(0));
    track->pattern.save(to);
  }
}

void CallTracks::load(StateReader& from) {
  *this = {};
  const std::size_t count = from.get_count(kSavedTrackBytes, kCallUsers);
  for (std::size_t i = 0; i < count && from.is_ok(); ++i) {
    CallTrack track;
    for (std::size_t user = 0; user < kCallUsers; ++user) {
      if (!from.get<bool>()) continue;
      track.users.add(static_cast<CallUser>(user));
      from.require(of_[user] == nullptr && kOfStates.has(static_cast<CallUser>(user)));
    }
    const bool has_position = from.get<bool>();
    const auto position = static_cast<std::size_t>(from.get<std::uint64_t>());
    if (has_position) track.position = position;
    track.pattern.load(from);
    from.require(!track.users.is_empty() &&
                 (!has_position || position < track.pattern.cycle().period()));
    track.saved_id = track.pattern.last_id();
    if (from.is_ok()) add(std::move(track));
  }
}

}  // namespace ringpress::nccl_plugin
