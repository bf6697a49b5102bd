// What buffers were called before the program was started anew.
//
// What is kept of calls names their buffers by addresses, which are others in another process. So a
// state that was loaded (CommunicatorState::load()) names them as before: a buffer that comes
// where the sequence that was saved had one of its shape has that one's name from then on. Others
// have names that no buffer had.
#ifndef NCCL_PLUGIN_SESSION_CALLS_BUFFER_NAMES_H_
#define NCCL_PLUGIN_SESSION_CALLS_BUFFER_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "nccl_plugin/session/calls/tensor_call.h"
#include "nccl_plugin/session/state/state_bytes.h"

namespace ringpress::nccl_plugin {

/// Whose addresses those of a state are.
enum class StateFrom { kThisProcess, kAnother };

/// Of one communicator. Until a state of another process is loaded, names are addresses.
class BufferNames {
 public:
  /// Whether that is so for now: there is nothing to learn.
  bool are_addresses() const { return processes_ == 0; }
  const void* name_of(const void* address) const;
  /// `name`: of a state that was loaded. A buffer gets one name, and a name belongs to one buffer:
  /// else nothing changes.
  void learn(const void* address, const void* name);
  /// Of a call that was not expected: the name of the one that came after `before` among those that
  /// were `seen` (CallPattern::seen()), or of the last one that came first of some that have not
  /// come again. `before`: the last call whose buffer has a name of a state.
  void guess(const TensorCall& call, const std::optional<TensorCall>& before,
             const std::vector<std::span<const TensorCall>>& seen);
  /// So many buffers have names of a state.
  std::size_t count() const { return names_.size(); }
  /// Whether it is one that a state has.
  bool has_name(const void* address) const { return names_.count(number_of(address)) != 0; }
  /// Whether there is anything to learn of a buffer.
  bool wants_name(const void* address) const;

  void save(StateWriter& to) const;
  void load(StateReader& from, StateFrom whose);

 private:
  static std::uint64_t number_of(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address);
  }
  bool is_free(const void* name) const;

  // So many buffers are looked for: a program that allocates anew has ever more.
  static constexpr std::size_t kMostGuesses = 16384;

  std::uint64_t processes_ = 0;  // That had these buffers before.
  std::map<std::uint64_t, std::uint64_t> names_;
  std::set<std::uint64_t> taken_;  // All of `names_`.
  std::size_t guesses_ = 0;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_BUFFER_NAMES_H_
