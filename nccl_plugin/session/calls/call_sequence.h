// Where the calls of a communicator stand in the sequence that its program repeats.
//
// Each of those who keep something of tensors from step to step asks about calls of its own:
//
//   kFeedback   calls of which a residual or a projection is kept, or would be if they were not
//               exact for now. It goes by buffers. By shapes it goes only where buffers do not
//               repeat, and after a proof. It drops what it keeps of a sequence that is forgotten.
//   kLazy       calls that may be put off. It goes by buffers. By its place among the shapes it
//               finds out whose orphan a new buffer takes. Each break is the end of places.
//   kTrace      every all-reduce, on the rank that records steps for RINGPRESS_TRACE.
//   kPlan       all-reduces of at least RINGPRESS_MIN_BYTES, on the rank that looks for a plan, as
//               long as it does. Both go by buffers, or else by shapes, and begin anew at a break.
//   kClass      large all-reduces, reduce-scatters and all-gathers, whose classes are looked for
//               (call_classes.h). It goes by shapes alone, as kLevels does.
//   kScales     all-reduces that are to be compressed, where they may have coordinate scales. It
//               goes by shapes alone, as kLevels does.
//   kWarmUp     calls that rules and settings want compressed, as long as a communicator warms up.
//               It goes by shapes alone, as kLevels does.
//   kSlices     calls that send one part of their tensor each (slice_turns.h). It goes by shapes
//               alone, as kLevels does.
//   kLevels     all-reduces that rules and settings want compressed. It goes by shapes alone, which
//               are equal on all ranks, as all ranks have to find the same.
//
// A user is never told of the calls of others, which would break its sequence. But users whose
// calls have been the same so far share one CallPattern, which observes each call once. When a call
// is one user's and not another's, the pattern is copied, and each goes on with its own. So the
// answers are those of a pattern of one's own, whoever else is told.
#ifndef NCCL_PLUGIN_SESSION_CALLS_CALL_SEQUENCE_H_
#define NCCL_PLUGIN_SESSION_CALLS_CALL_SEQUENCE_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "nccl_plugin/session/calls/buffer_names.h"
#include "nccl_plugin/session/calls/call_pattern.h"
#include "nccl_plugin/session/state/state_bytes.h"

namespace ringpress::nccl_plugin {

enum class CallUser : std::uint8_t {
  kFeedback,
  kLazy,
  kTrace,
  kPlan,
  kLevels,
  kClass,
  kScales,
  kWarmUp,
  kSlices
};
inline constexpr std::size_t kCallUsers = 9;

/// A set of users.
class CallUsers {
 public:
  constexpr CallUsers(std::initializer_list<CallUser> users = {}) {
    for (const CallUser user : users) add(user);
  }

  constexpr void add(CallUser user) { bits_ |= 1U << static_cast<unsigned>(user); }
  constexpr void add(CallUsers users) { bits_ |= users.bits_; }
  constexpr void remove(CallUsers users) { bits_ &= ~users.bits_; }
  constexpr bool is_empty() const { return bits_ == 0; }
  /// The number of one of them; there is one.
  constexpr std::size_t first() const { return static_cast<std::size_t>(std::countr_zero(bits_)); }
  constexpr bool has(CallUser user) const { return !common(*this, {user}).is_empty(); }
  static constexpr CallUsers common(CallUsers a, CallUsers b) {
    a.bits_ &= b.bits_;
    return a;
  }
  bool operator==(const CallUsers&) const = default;

 private:
  unsigned bits_ = 0;
};

/// By what calls are told apart. A shape is a call without the address of its buffer. What the
/// program calls a tensor (tensor_names.h) is in no sequence.
enum class CallsBy : std::uint8_t { kBuffer, kShape, kName };

/// What is known of a user's last call; valid until the next one.
struct CallPlaces {
  const CallPattern& buffers;
  const CallPattern& shapes;
  // Its positions in the sequence of buffers and in that of shapes; nothing while there is none.
  std::optional<std::size_t> by_buffer;
  std::optional<std::size_t> by_shape;
};

/// Whether a count of breaks is another one than `*seen`, which then is this one.
inline bool has_changed(std::uint64_t* seen, std::uint64_t count) {
  return std::exchange(*seen, count) != count;
}

/// What users have seen whose calls have been the same.
struct CallTrack {
  CallUsers users;
  CallPattern pattern;
  std::optional<std::size_t> position;  // Of the last call.
  std::uint64_t saved_id = 0;           // Of the last sequence that came from a state.
  std::size_t since_saved = 0;          // Calls.

  void observe(const TensorCall& call) {
    position = pattern.observe(call);
    ++since_saved;
  }
};

/// The tracks of all users, by buffer or by shape.
class CallTracks {
 public:
  const std::vector<std::unique_ptr<CallTrack>>& all() const { return tracks_; }
  /// Null: this user knows of no call yet.
  const CallTrack* of(CallUser user) const { return of_[static_cast<std::size_t>(user)]; }
  /// Whether one of them repeats a sequence that came from a state.
  bool repeat_saved() const;
  /// Whether one does, or has only been left for strays.
  bool may_repeat_saved() const;
  /// The call is one of these users'.
  void observe(const TensorCall& call, CallUsers users);
  void save(StateWriter& to) const;
  /// Instead of all that was observed.
  void load(StateReader& from);

 private:
  void part(const TensorCall& call, CallUsers users);
  CallTrack* add(CallTrack track);

  std::vector<std::unique_ptr<CallTrack>> tracks_;
  std::array<CallTrack*, kCallUsers> of_ = {};  // By user.
};

/// Of one communicator. One thread at a time.
class CallSequence {
 public:
  /// The program makes another call, of which nobody has been told.
  void begin_call() {
    told_ = {};
    is_counted_ = false;
  }
  /// The call is one of these users'. Those who have been told of it are not told again.
  void tell(const TensorCall& call, CallUsers users);
  /// Whether this user has been told of the call that has begun, and has not asked about it.
  bool has_told(CallUser user) const { return told_.has(user); }
  /// Where the call stands among this user's, which is told of it if it has not been told.
  CallPlaces ask(CallUser user, const TensorCall& call);

  /// A call that a user was told of, with its buffer's name: by that it is found again.
  TensorCall named(const TensorCall& call) const;

  /// Patterns that are kept, by buffer and by shape together.
  std::size_t patterns() const { return by_buffer_.all().size() + by_shape_.all().size(); }

  // Of those whose users keep what is saved, too: not those of steps, which are times.
  /// What goes by shapes: the same on all ranks.
  void save_shapes(StateWriter& to) const;
  /// What goes by buffers, and their names.
  void save_buffers(StateWriter& to) const;
  /// Instead of all that was told by shapes. Of what `from` fails at, nothing is to be used.
  void load_shapes(StateReader& from);
  /// The same by buffers; after the shapes.
  void load_buffers(StateReader& from, StateFrom whose);
  /// What was told by shapes is forgotten.
  void forget_shapes() { by_shape_ = {}; }

 private:
  void learn_name(const TensorCall& call, CallUsers users);
  void judge_state(const TensorCall& call);
  void begin_trial();

  CallUsers told_;
  BufferNames names_;
  std::optional<TensorCall> before_;  // The last call whose buffer has a name of a state.
  bool is_on_trial_ = false;   // A state: whether it is of this program's calls is not known.
  bool is_counted_ = false;    // The call that has begun, in what follows.
  std::size_t fitting_ = 0;    // Calls in a row that were as it has them.
  std::size_t buffers_ = 0;    // That it has.
  std::size_t strangers_ = 0;  // The last calls in a row that were on others.
  CallTracks by_buffer_;
  CallTracks by_shape_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_CALL_SEQUENCE_H_
