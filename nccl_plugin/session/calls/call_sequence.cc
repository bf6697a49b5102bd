#include "nccl_plugin/session/calls/call_sequence.h"

#include <utility>

namespace ringpress::nccl_plugin {
namespace {

// Addresses differ between ranks: levels do not see them.
constexpr CallUsers kByBuffer{CallUser::kFeedback, CallUser::kLazy, CallUser::kTrace,
                              CallUser::kPlan};

}  // namespace

void CallSequence::tell(const TensorCall& call, CallUsers users) {
  users.remove(told_);
  if (users.is_empty()) return;
  observe(call, CallUsers::common(users, kByBuffer), &by_buffer_);
  TensorCall shape = call;
  shape.address = nullptr;
  observe(shape, users, &by_shape_);
  told_.add(users);
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

}  // namespace ringpress::nccl_plugin
