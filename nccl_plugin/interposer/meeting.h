// Who has ringpress at all? Ranks find out without the real NCCL, where a rank that does not answer
// would let the others wait for ever: the process that makes an NCCL id also opens a rendezvous of
// ours and writes its address into the unused end of the id. Ranks that have this library meet
// there once the real communicator has formed. If one does not come before a short deadline, or
// differs in version or settings, all of them are told so.
//
//   bytes of an NCCL id:  0..55 the real library's (2.19 to 2.30 use at most 48)
//                         56..127 the first 72 bytes of a UniqueId of ours; zero without one
#ifndef NCCL_PLUGIN_INTERPOSER_MEETING_H_
#define NCCL_PLUGIN_INTERPOSER_MEETING_H_

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ringpress/nccl.h"
#include "ringpress/rendezvous.h"
#include "ringpress/settings.h"

namespace ringpress::nccl_plugin::interposer {

/// False if the id has no room for it: then it is as it was.
bool write_meeting_place(const UniqueId& place, ncclUniqueId* id);
std::optional<UniqueId> read_meeting_place(const ncclUniqueId& id);
/// A number made of the secret in it.
std::uint64_t number_of(const UniqueId& place);

/// The rendezvous that this process has prepared and that nobody is served at yet.
class Meetings {
 public:
  explicit Meetings(const Settings& settings) : settings_(settings) {}

  /// Opens one and writes it into the id. Its port refuses connections until meet(), and is closed
  /// when that has ended. An id of which nothing comes costs a descriptor until many more have been
  /// made.
  void open(ncclUniqueId* id);
  /// Meets the other ranks: gives, by rank, the host that it is on. `facts` ("NAME=value") must be
  /// equal on all ranks, besides the settings. Does not wait longer than a few seconds.
  Result<std::vector<int>> meet(const UniqueId& place, int rank, int size,
                                const std::vector<std::string>& facts);

 private:
  std::unique_ptr<Rendezvous> take(const UniqueId& place);

  const Settings& settings_;
  std::mutex mutex_;
  std::list<std::unique_ptr<Rendezvous>> open_;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_MEETING_H_
