// The transfers of a mesh that are under way: what was started, how it is waited for, and the
// memory that frames are sent from. For the owner (ownership.h) alone.
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
  Transfers(const MeshParts& parts, Connections& connections, const MeshFailure& failure)
      : parts_(parts), connections_(connections), failure_(failure) {}

  /// A request to fill in and start.
  MeshRequest* take() { return requests_.take(); }
  void give(MeshRequest* request) { requests_.give(request); }
  Status start(MeshRequest& request);
  Status test(MeshRequest& request);
  /// Until it is done, the mesh has failed, or nothing at all has moved for the timeout.
  Status sleep_until_done(MeshRequest& request);
  /// Some are worth a progress thread.
  bool has_large() const { return large_outstanding_ > 0; }

  Result<Buffer> staging(std::size_t slot, std::size_t bytes);

 private:
  const MeshParts& parts_;
  Connections& connections_;
  const MeshFailure& failure_;
  transport::Pool<MeshRequest> requests_;
  std::size_t large_outstanding_ = 0;
  std::vector<Buffer> staging_;  // By slot.
  std::vector<std::unique_ptr<transport::ViewMemory>> private_staging_;
};

}  // namespace ringpress::ring

#endif  // RING_MESH_TRANSFERS_H_
