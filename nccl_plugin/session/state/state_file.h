// The file that a rank's state is in.
//
//   offset  bytes  what
//        0      8  "rpstate" and a zero
//        8      4  version of what follows
//       12      4  0
//       16      8  bytes of the whole file
//       24         what the parts of the communicator have written (mesh/mesh_state.cc)
//      end      8  XXH3-64 of all bytes before
//
// It is written beside its place, as NAME.ringpress-tmp, and moved there when it is whole and on
// the disk, so that a crash leaves the one before. Where a link stands at its place, that is where
// the link leads, and the link stays. What else stands there (a device, a pipe, a folder, a link to
// nothing) is left alone.
#ifndef NCCL_PLUGIN_SESSION_STATE_STATE_FILE_H_
#define NCCL_PLUGIN_SESSION_STATE_STATE_FILE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "nccl_plugin/session/state/state_bytes.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin {

/// Counts up with each change of what is written.
inline constexpr std::uint32_t kStateVersion = 9;

/// Makes the file of what `save` writes. kSystem says what went wrong; then the file that was there
/// is as it was.
Status write_state_file(const std::string& path, const std::function<void(StateWriter&)>& save);

/// A file whose checksum holds.
struct OpenState {
  StateOutcome outcome = StateOutcome::kLoaded;
  std::string reason;                   // If it is another outcome.
  std::unique_ptr<StateReader> reader;  // Of what the parts have written; null: another outcome.
};
OpenState open_state_file(const std::string& path);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_STATE_STATE_FILE_H_
