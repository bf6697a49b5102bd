// Who has ringpress at all? Ranks find out without the real NCCL, where a rank that does not answer
// would let the others wait for ever: the process that makes an NCCL id also opens a rendezvous of
// ours and writes its address into the unused end of the id. Ranks that have this library meet
// there once the real communicator has formed. If one does not come before a short deadline, or
// differs in version or settings, all of them are told so.
//
// Once a rank has not come, nobody waits so long again: this process tells the ranks of every later
// communicator at once, where they meet or, if it makes the id, in the id itself.
//
//   bytes of an NCCL id:  0..55 the real library's (40, of 2.30 48, are used)
//                         56..127 the first 72 bytes of a UniqueId of ours; or "RRPX" and the
//                         beginning of a text, why there is none; or zero
#ifndef NCCL_PLUGIN_INTERPOSER_MEETING_MEETING_H_
#define NCCL_PLUGIN_INTERPOSER_MEETING_MEETING_H_

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "nccl_plugin/session/ring_topology.h"
#include "ringpress/internal/rendezvous.h"
#include "ringpress/internal/settings.h"
#include "ringpress/nccl.h"

namespace ringpress::nccl_plugin::interposer {

/// False if the id has no room for it: then it is as it was.
bool write_meeting_place(const UniqueId& place, ncclUniqueId* id);
std::optional<UniqueId> read_meeting_place(const ncclUniqueId& id);
/// As it was before either of them was written.
ncclUniqueId without_place(const ncclUniqueId& id);
/// As write_meeting_place(), but why nobody is to meet. As much of the text as there is room for,
/// which is 68 bytes.
bool write_refusal(const std::string& reason, ncclUniqueId* id);
std::optional<std::string> read_refusal(const ncclUniqueId& id);
/// Of an id without a meeting place, in words.
std::string why_no_place(const ncclUniqueId& id);
/// A number made of the secret in it.
std::uint64_t number_of(const UniqueId& place);

/// The rendezvous of this process's ids.
class Meetings {
 public:
  explicit Meetings(const Settings& settings)
      : settings_(settings), topology_(read_ring_topology(settings)) {}

  /// What the settings say of how rings go. Ranks that meet have the same.
  const RingTopology& topology() const { return topology_; }

  /// Opens one and writes it into the id, or why there is none. Its port refuses connections until
  /// serve(), and is closed when the ranks have met. An id of which nothing comes costs a
  /// descriptor until 64 more have been made, and then the risk that somebody else takes its port.
  void open(ncclUniqueId* id);
  /// A rank of this process begins to make the communicator: if the place is this process's, it is
  /// there from now on. So a place where nobody listens once the communicator has formed was made
  /// by a process that is no rank.
  void serve(const UniqueId& place);
  /// A rank of this process will not meet the others, for a reason that the real library or the
  /// program gave. If the place is this process's, ranks that go there hear it; it closes within
  /// seconds. Nothing if they have met.
  void call_off(const UniqueId& place, const std::string& why);
  /// Meets the other ranks: gives, by rank, the host that it is on. `facts` ("NAME=value") must be
  /// equal on all ranks, besides the settings. Does not wait longer than a few seconds. kRefused:
  /// no rank makes the communicator, as one of them has a `refusal`.
  Result<std::vector<int>> meet(const UniqueId& place, int rank, int size, const Status& refusal,
                                std::vector<std::string> facts);
  /// Why no more ranks are waited for; no value until one has not come.
  std::optional<std::string> missed() const;

 private:
  using Places = std::list<std::unique_ptr<Rendezvous>>;
  Status open_at(ncclUniqueId* id);
  void keep(std::unique_ptr<Rendezvous> opened);
  std::unique_ptr<Rendezvous> take(Places& places, const UniqueId& place);
  std::chrono::milliseconds patience() const;
  Status note(const Status& met);

  const Settings& settings_;
  const RingTopology topology_;
  mutable std::mutex mutex_;
  std::optional<std::string> missed_;
  Places open_;    // Nobody is served there yet. The oldest first.
  Places served_;  // Nobody has met there yet.
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_MEETING_MEETING_H_
