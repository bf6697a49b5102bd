// Who may touch the transports of a mesh: one owner at a time.
//
// A call of the user is it for its whole length, sleeping included, and does not wait for it as a
// rule. The progress thread is it only between calls, and only while large transfers are under way;
// abort() only if nobody is, and otherwise leaves the work to the call that is. No mutex is held
// while the system is called.
#ifndef RING_MESH_TURNS_H_
#define RING_MESH_TURNS_H_

#include <optional>
#include <utility>

#include "ring/mesh_connections.h"
#include "ring/mesh_failure.h"
#include "ring/mesh_thread.h"
#include "ring/mesh_transfers.h"
#include "ring/ownership.h"

namespace ringpress::ring {

/// What a mesh consists of.
struct MeshCore {
  explicit MeshCore(MeshParts with) : parts(std::move(with)) {}

  const MeshParts parts;
  Connections connections{parts};
  MeshFailure failure{connections};
  Transfers transfers{parts, connections, failure};
};

class MeshTurns {
 public:
  explicit MeshTurns(MeshCore& mesh);
  /// The owner's right to touch the transports, for the length of one call.
  class Turn {
   public:
    explicit Turn(MeshTurns& turns) : turns_(turns) { turns_.owner_.take(); }
    ~Turn() { turns_.end(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    MeshTurns& turns_;
  };

  /// Any thread, once the mesh has failed.
  void spread_failure();
  /// Ends the progress thread. Who calls it is the owner from here on.
  void stop();

 private:
  void end();
  bool move_bytes();

  MeshCore& mesh_;
  Ownership owner_;
  std::optional<MeshThread> thread_;
};

}  // namespace ringpress::ring

#endif  // RING_MESH_TURNS_H_
