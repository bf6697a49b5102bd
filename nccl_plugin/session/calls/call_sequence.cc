#include "nccl_plugin/session/calls/call_sequence.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin {
namespace {

// Addresses differ between ranks: levels, scales and classes do not see them.
constexpr CallUsers kByBuffer{CallUser::kFeedback, CallUser::kLazy, CallUser::kTrace,
                              CallUser::kPlan};
constexpr CallUsers kOfStates{CallUser::kFeedback, CallUser::kLazy, CallUser::kLevels,
                              CallUser::kClass, CallUser::kScales};
// The least that a state has of a track.
constexpr std::size_t kSavedTrackBytes = 32;

}  // namespace

void CallSequence::tell(const TensorCall& call, CallUsers users) {
  users.remove(told_);
  if (users.is_empty()) return;
  learn_name(call, users);
  const TensorCall as_named = named(call);
  if (names_.has_name(call.address)) before_ = as_named;
  observe(as_named, CallUsers::common(users, kByBuffer), &by_buffer_);
  TensorCall shape = call;
  shape.address = nullptr;
  observe(shape, users, &by_shape_);
  if (is_on_trial_) judge_state(call);
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
  for (const auto& track : by_buffer_.tracks) {
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
  for (const auto& track : by_buffer_.tracks) {
    const auto seen = track->pattern.seen();
    for (const std::span<const TensorCall> calls : seen) {
      for (const TensorCall& call : calls) buffers.insert(call.address);
    }
    const TensorCall* const last = track->pattern.last();
    if (last != nullptr) before_ = *last;
  }
  buffers_ = buffers.size();
}

/// What a state says of tensors is dropped as soon as the calls repeat something else on other
/// buffers, unless they have repeated what it has.
void CallSequence::judge_state(const TensorCall& call) {
  if (!names_.has_name(call.address)) ++strangers_;
  std::size_t longest = 0;  // Of the sequences that are repeated.
  bool is_another = false;
  for (const auto& track : by_shape_.tracks) {
    if (track->saved_id == 0) continue;
    if (track->pattern.cycle_id() > track->saved_id) is_another = true;
    if (track->pattern.cycle_id() <= track->saved_id) {
      longest = std::max(longest, track->pattern.period());
    }
  }
  fitting_ = longest == 0 ? 0 : fitting_ + 1;
  is_on_trial_ = !is_another && (longest == 0 || fitting_ < longest);
  if (!is_another || strangers_ <= names_.count() || 2 * names_.count() >= buffers_) return;
  log_line(LogLevel::kWarn,
           "the calls are not those of the state that was loaded: what it has of tensors is "
           "dropped");
  for (Tracks* const all : {&by_buffer_, &by_shape_}) {
    for (const auto& track : all->tracks) track->pattern.forget_until(track->saved_id);
  }
}

CallPlaces CallSequence::ask(CallUser user, const TensorCall& call) {
  static const Track kNone;
  tell(call, {user});
  told_.remove({user});
  const auto number = static_cast<std::size_t>(user);
  const Track& buffers = by_buffer_.of[number] == nullptr ? kNone : *by_buffer_.of[number];
  const Track& shapes = *by_shape_.of[number];
  return {buffers.pattern, shapes.pattern, buffers.position, shapes.position};
}

/// Of users who shared a track, those who are told of the call part from those who are not.
void CallSequence::observe(const TensorCall& call, CallUsers users, Tracks* all) {
  const std::size_t before = all->tracks.size();
  for (std::size_t i = 0; i < before; ++i) {
    Track* track = all->tracks[i].get();
    const CallUsers told = CallUsers::common(track->users, users);
    if (told.is_empty()) continue;
    users.remove(told);
    if (!(told == track->users)) {
      Track* const shared = track;
      track = add({told, shared->pattern, {}}, all);
      shared->users.remove(told);
    }
    track->position = track->pattern.observe(call);
  }
  if (users.is_empty()) return;
  // It is the first call of these.
  Track* const first = add({users, {}, {}}, all);
  first->position = first->pattern.observe(call);
}

CallSequence::Track* CallSequence::add(Track track, Tracks* all) {
  all->tracks.push_back(std::make_unique<Track>(std::move(track)));
  Track* const added = all->tracks.back().get();
  for (std::size_t user = 0; user < kCallUsers; ++user) {
    if (added->users.has(static_cast<CallUser>(user))) all->of[user] = added;
  }
  return added;
}

void CallSequence::save_tracks(const Tracks& all, StateWriter& to) {
  const auto is_saved = [](const auto& track) {
    return !CallUsers::common(track->users, kOfStates).is_empty();
  };
  to.put<std::uint64_t>(
      static_cast<std::uint64_t>(std::count_if(all.tracks.begin(), all.tracks.end(), is_saved)));
  // Ranks that keep other tracks besides have these in another order.
  std::set<const Track*> saved;
  for (const Track* const track : all.of) {
    if (track == nullptr || !is_saved(track) || !saved.insert(track).second) continue;
    for (std::size_t user = 0; user < kCallUsers; ++user) {
      to.put(CallUsers::common(track->users, kOfStates).has(static_cast<CallUser>(user)));
    }
    to.put(track->position.has_value());
    to.put<std::uint64_t>(track->position.value_or(0));
    track->pattern.save(to);
  }
}

void CallSequence::load_tracks(StateReader& from, Tracks* all) {
  *all = {};
  const std::size_t count = from.get_count(kSavedTrackBytes, kCallUsers);
  for (std::size_t i = 0; i < count && from.is_ok(); ++i) {
    Track track;
    for (std::size_t user = 0; user < kCallUsers; ++user) {
      if (!from.get<bool>()) continue;
      track.users.add(static_cast<CallUser>(user));
      from.require(all->of[user] == nullptr && kOfStates.has(static_cast<CallUser>(user)));
    }
    const bool has_position = from.get<bool>();
    const auto position = static_cast<std::size_t>(from.get<std::uint64_t>());
    if (has_position) track.position = position;
    track.pattern.load(from);
    from.require(!track.users.is_empty() && (!has_position || position < track.pattern.period()));
    track.saved_id = track.pattern.last_id();
    if (from.is_ok()) add(std::move(track), all);
  }
}

void CallSequence::save_shapes(StateWriter& to) const {
  save_tracks(by_shape_, to);
}

void CallSequence::save_buffers(StateWriter& to) const {
  names_.save(to);
  save_tracks(by_buffer_, to);
}

void CallSequence::load_shapes(StateReader& from) {
  told_ = {};
  load_tracks(from, &by_shape_);
}

void CallSequence::load_buffers(StateReader& from, StateFrom whose) {
  told_ = {};
  names_.load(from, whose);
  load_tracks(from, &by_buffer_);
  is_on_trial_ = whose == StateFrom::kAnother;
  begin_trial();
}

}  // namespace ringpress::nccl_plugin
