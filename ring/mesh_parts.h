// What a mesh is made of, before anything is sent.
#ifndef RING_MESH_PARTS_H_
#define RING_MESH_PARTS_H_

#include "ring/factory.h"
#include "ring/mesh_connections.h"

namespace ringpress::ring {

/// Listens, and meets the other ranks. Collective.
Result<MeshParts> meet_and_listen(const MeshOptions& options);

}  // namespace ringpress::ring

#endif  // RING_MESH_PARTS_H_
