// What buffers were called before the program was started anew.
//
// What is kept of calls names their buffers by addresses, which are others in another process. So a
// state that was loaded (Communicator::load_state()) names them as before: a buffer that comes
// where the sequence that was saved had one of its shape has that one's name from then on. Others
// have names that no buffer had.
#ifndef NCCL_PLUGIN_SESSION_CALLS_BUFFER_NAMES_H_
#define NCCL_PLUGIN_SESSION_CALLS_BUFFER_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "nccl_plugin/session/state/state_bytes.h"

namespace ringpress::nccl_plugin {

/// Whose addresses those of a state are.
enum class StateFrom { kThisProcess, kAnother };

/// Of one communicator. Until a state of another process is loaded, names are addresses.
class BufferNames {
 public:
  const void* name_of(const void* address) const;
  /// `name`: of a state that was loaded. A buffer gets one name, and a name belongs to one buffer:
  /// else nothing changes.
  void learn(const void* address, const void* name);

  void save(StateWriter& to) const;
  void load(StateReader& from, StateFrom whose);

 private:
  bool is_of_this_process(std::uint64_t name) const;

  std::uint64_t processes_ = 0;  // That had these buffers before.
  std::map<std::uint64_t, std::uint64_t> names_;
  std::set<std::uint64_t> taken_;  // All of `names_`.
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_BUFFER_NAMES_H_
