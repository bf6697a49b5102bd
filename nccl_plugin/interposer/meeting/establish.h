// The one-time agreement of a new communicator's ranks.
#ifndef NCCL_PLUGIN_INTERPOSER_MEETING_ESTABLISH_H_
#define NCCL_PLUGIN_INTERPOSER_MEETING_ESTABLISH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nccl_plugin/interposer/comm/comm_table.h"
#include "nccl_plugin/interposer/left_comms.h"
#include "nccl_plugin/interposer/meeting/meeting.h"

namespace ringpress::nccl_plugin::interposer {

/// A communicator that the real library has made, and how its ranks can agree.
struct NewComm {
  ncclComm_t handle = nullptr;
  std::uint64_t clique = 0;          // A child's ranks agree on one.
  std::optional<UniqueId> place;     // Where they meet.
  std::shared_ptr<Comm> parent;      // Or: all of them are in here, so all have this library.
  std::shared_ptr<Comm> grown_from;  // The communicator whose ranks and others these are: over it
                                     // those who know the place tell the others.
  bool is_heir = false;              // A child that goes on with its parent's ranks: shrunk.
  bool in_process = false;           // Or: all of them are in this process.
  std::string name;                  // That the program has given it; empty: none.
  Status problem;  // Why this rank can compress nothing, if it cannot. The others hear it.
  Status refusal;  // Why this rank makes no communicator at all, if it does not. So do the others
                   // then, who hear it where they meet.
  // The outcome: its handle is to be aborted, and the reason is the last error.
  bool is_refused = false;
};

/// Where communicators are kept from then on.
struct KnownComms {
  CommTable& open;
  LeftComms& left;
};

/// Opens those whose ranks all agree; the others are left, with a line that says why. One call for
/// all communicators that one group has made: their exchanges must begin together.
///
/// First the ranks meet (meeting.h). From then on it is safe to ask each other over the real
/// library: every rank makes what it needs and all-gathers whether it could. Where a rank has no
/// host memory for that, it abandons the communicator.
void establish(const ringpressRealNccl& real, const Settings& settings, Meetings& meetings,
               KnownComms known, std::span<NewComm> made) noexcept;

/// Ends a communicator whose other ranks wait, or will, for what this one cannot do: they fail too,
/// where the real library can be told (ncclCommRevoke()).
void abandon(const ringpressRealNccl& real, ncclComm_t handle) noexcept;

/// The line about a communicator that is left, once a process for each reason.
void warn_left(const std::string& reason);

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_MEETING_ESTABLISH_H_
