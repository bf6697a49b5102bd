// The only header of ring/ that other folders include.
#ifndef RING_FACTORY_H_
#define RING_FACTORY_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringpress/internal/address_choice.h"
#include "ringpress/internal/collective.h"
#include "ringpress/internal/link.h"
#include "ringpress/internal/mesh.h"
#include "ringpress/internal/one_sided.h"
#include "ringpress/internal/rendezvous.h"
#include "ringpress/internal/setting_types.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::ring {

/// How a mesh is made; the same on all ranks but for `rank`, `progress_thread`,
/// `congestion`, `address`, `host_id` and `word`.
struct MeshOptions {
  UniqueId id{};  // From open_rendezvous() or prepare_rendezvous().
  int rank = 0;
  int size = 1;
  std::vector<std::string> agreement;  // "NAME=value" lines that must be equal on all ranks.
  std::string
      refusal;  // In meet(): why this rank, and so no rank, makes a communicator; empty: none.
  std::string extra_secret;   // Mixed into the secret of the id.
  bool is_encrypted = false;  // What goes over a network.
  std::chrono::milliseconds timeout{600000};
  std::chrono::milliseconds join_timeout{0};  // For all ranks to come; 0: as `timeout`.
  // For the rendezvous to be listened at, in meet(); 0: as the time for all ranks to come.
  std::chrono::milliseconds refusal_patience{0};
  int sockets_per_peer = 2;
  std::string congestion;  // Of what this rank sends over TCP; empty: the system's default.
  bool shared_memory = true;
  ProgressThread progress_thread = ProgressThread::kAuto;
  AddressChoice address;   // That this rank listens on; open: the one that routes to the root.
  std::uint32_t word = 0;  // Mesh::root_word(), of rank 0.
  std::string host_id;     // In place of NCCL_HOSTID; empty: that of the process.
};

/// Opens the socket where the ranks of one communicator find each other. Its id holds a magic
/// number, address, port and a fresh 128-bit secret. Who comes before it serves waits in its queue,
/// or, with kWhenServed, is refused: meet() tries again, make_mesh() only for a few seconds.
enum class Listens { kAtOnce, kWhenServed };
Result<std::unique_ptr<Rendezvous>> prepare_rendezvous(const AddressChoice& address,
                                                       const std::string& extra_secret,
                                                       Listens listens = Listens::kAtOnce);

/// Names of this host's network interfaces that are up and have an address of that family, each
/// once, the loopback ones last. kSystem where the system does not say.
Result<std::vector<std::string>> interface_names(AddressFamily family);

/// Those of `names` that a value of AddressChoice::interfaces selects.
std::vector<std::string> select_interfaces(const std::vector<std::string>& names,
                                           const std::string& value);

/// kInvalidArgument, with a list of those there are, where the choice names interfaces and none of
/// this host matches: what everything that listens here answers.
Status check_address(const AddressChoice& choice);

/// Why what this process sends over TCP cannot be paced as RINGPRESS_TCP_CONGESTION says; ok if it
/// can, or `name` is empty. Everything that connects here logs that, and takes the system's
/// default.
Status check_congestion(const std::string& name);

/// The id of a rendezvous at an address that all ranks know before: "192.0.2.7:4711",
/// "[fd00::7]:4711" or "host:4711". Rank 0 serves there in make_mesh(); all ranks wait for that as
/// long as for each other. It has no secret but MeshOptions::extra_secret. kInvalidArgument for
/// what is no such address.
Result<UniqueId> known_rendezvous(const std::string& address);

/// prepare_rendezvous() and Rendezvous::serve() in one.
Result<UniqueId> open_rendezvous(const AddressChoice& address, const std::string& extra_secret,
                                 std::chrono::milliseconds timeout);

/// Meets the other ranks and returns the mesh that joins them. Collective. Fails on every rank,
/// with the same message, when settings, versions or sizes differ ("RINGPRESS_CODEC: rank 0 has q4,
/// rank 2 has q8") or two processes claim one rank; names the ranks that never came.
Result<std::unique_ptr<Mesh>> make_mesh(const MeshOptions& options);

/// Meets the other ranks as make_mesh() does, for one-sided calls.
Result<std::unique_ptr<OneSided>> make_one_sided(const MeshOptions& options,
                                                 const OneSidedLimits& limits);

/// Meets the other ranks as make_mesh() does and fails as it does, but connects to nobody. Gives,
/// by rank, the number of the host that it is on. Every rank gets the same answer: kRefused where
/// one of them has a refusal.
Result<std::vector<int>> meet(const MeshOptions& options);

/// Listens for links. kSystem where the interface has no address or descriptors run out.
Result<std::unique_ptr<LinkListener>> listen_for_links(const LinkOptions& options);

/// Begins to open a link; LinkConnector::connect() goes on. kInvalidArgument for a handle that no
/// listener gave.
Result<std::unique_ptr<LinkConnector>> open_link(const LinkHandle& handle,
                                                 const LinkOptions& options);

/// The collective of an algorithm that a mesh runs (AlgorithmTraits::runs_on_mesh). Never null.
/// `ring_order`: the ranks as a ring visits them, each once and equal on all ranks; empty: by
/// number. Who owns what is not changed by it, but sums are taken in that order, where the
/// algorithm goes round.
std::unique_ptr<Collective> make_collective(Algorithm algorithm, std::vector<int> ring_order = {});

/// One of each.
class Collectives {
 public:
  /// As of make_collective().
  explicit Collectives(const std::vector<int>& ring_order = {});
  const Collective& of(Algorithm algorithm) const;

 private:
  std::vector<std::unique_ptr<Collective>> all_;
};

/// Copies count elements from `send` on the root to `receive` everywhere. Exact.
Status broadcast(const CollectiveContext& context, const void* send, void* receive,
                 std::size_t count, int root);

/// Reduces to `receive` on the root alone; `receive` is ignored elsewhere. Exact codecs only.
Status reduce(const CollectiveContext& context, const void* send, void* receive, std::size_t count,
              int root);

/// One side of a point-to-point transfer, in bytes.
struct PointToPoint {
  bool is_send = false;
  void* data = nullptr;
  std::size_t bytes = 0;
  int peer = 0;
  CallSignature call;  // What the peer must have called.
};

/// Runs all transfers together; those between the same two ranks match in order.
Status exchange(Mesh& mesh, std::span<const PointToPoint> transfers, std::size_t chunk_bytes);

/// A round of gossip (nccl_plugin/gossip/).
struct Round {
  std::uint64_t seed = 0;
  std::uint64_t number = 0;
};

/// Who meets `rank` in a round: every rank knows it of every other without asking. A random
/// matching that leaves nobody alone but, of an odd number of ranks, one: -1. Takes steps and
/// memory in proportion to `size`.
int find_partner(const Round& round, int size, int rank);

}  // namespace ringpress::ring

#endif  // RING_FACTORY_H_
