// The transfers of a mesh that are under way: what was started, how it is waited for, and the
// memory that frames are sent from. For the owner (mesh_turns.h) alone. What goes wrong fails the
// mesh.
#ifndef RING_MESH_TRANSFERS_H_
#define RING_MESH_TRANSFERS_H_

#include <memory>
#include <vector>

#include "ring/mesh_connections.h"
#include "ring/mesh_failure.h"
#include "ring/transport/common/operation.h"

namespace ringpress::ring {

class Transfers {
 public:
  Transfers(const MeshParts& parts, Connections& connections, MeshFailure& failure)
      : parts_(parts), connections_(connections), failure_(failure) {}

  /// A request to fill in and start.
  MeshRequest* take() { return requests_.take(); }
  Result<Request*> start(MeshRequest* request);
  Result<ConstBuffer> wait(MeshRequest& request);
  Result<bool> poll(MeshRequest& request);
  /// Done or not.
  void release(MeshRequest& request);
  /// Some are worth a progress thread.
  bool has_large() const { return large_outstanding_ > 0; }

  Result<Buffer> staging(std::size_t slot, std::size_t bytes);
  /// All but the memory that belongs to a transport.
  void give_back_staging();
  std::size_t spare_bytes() const;

 private:
  Status test(MeshRequest& request);
  /// Until it is done, the mesh has failed, or nothing at all has moved for the timeout.
  Status sleep_until_done(MeshRequest& request);

  const MeshParts& parts_;
  Connections& connections_;
  MeshFailure& failure_;
  transport::Pool<MeshRequest> requests_;
  std::size_t large_outstanding_ = 0;
  std::vector<Buffer> staging_;  // By slot.
  std::vector<std::unique_ptr<transport::ViewMemory>> private_staging_;
};

}  // namespace ringpress::ring

#endif  // RING_MESH_TRANSFERS_H_
