// A collective decides who sends what to whom. It sees the network as a Mesh and numbers as a
// Codec; it acts on CodecTraits, never on a codec's name.
//
// Nouns, used as variable names in every implementation:
//   shard    the part of the tensor that one rank owns (reduces)
//   chunk    what travels in one frame; a shard is cut into chunks so that encoding, the wire and
//            decoding overlap
//   step     which leg of the journey a frame is on; the label of each frame carries it
#ifndef RINGPRESS_INTERNAL_COLLECTIVE_H_
#define RINGPRESS_INTERNAL_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>

#include "ringpress/internal/codec.h"
#include "ringpress/internal/mesh.h"
#include "ringpress/internal/projection.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress {

/// The part of a tensor before element `end`, from where the part before it ends, and its codec.
struct CodecPart {
  std::size_t end = 0;  // A multiple of kTileElements, or the tensor's end.
  const Codec* codec = nullptr;
};

/// What every collective needs besides the buffers. All ranks must pass equal values, but for
/// `mesh`, `memory`, `residual`, `layers` and `projection_state`.
struct CollectiveContext {
  Mesh* mesh = nullptr;
  // For what a call keeps in mind until it ends: requests under way, ranges, summaries. Used by the
  // calling thread alone. A pool, such as the communicator's, spares later calls the heap.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
  const Codec* codec = nullptr;
  // All-reduces by `sra` alone: the tensor's parts, in order, if they have codecs of their own.
  // Then `codec`, which is no identity codec, gives type and operation and the size of chunks.
  // Codecs of parts have fixed sizes, no agreement and no projection.
  std::span<const CodecPart> parts;
  CallSignature call;
  std::size_t chunk_elements = 0;  // Elements per frame; 0 lets the collective choose.
  bool pre_multiplied = false;     // Inputs are scaled, on every rank by its own factor.
  double input_scale = 1;  // That factor, as in EncodeArgs. The one value that may differ by rank.
  float* residual = nullptr;      // Error feedback for the whole input tensor, or null.
  std::uint64_t random_seed = 0;  // Equal on all ranks.
  // Of a codec with a projection() that sends a part of the tensor in each call: which one, modulo
  // its cycle(). Equal on all ranks.
  std::uint64_t turn = 0;
  // Of a scaled codec (compress_kernels/scales/): codes for the whole tensor.
  const std::uint8_t* scales = nullptr;
  // For all-reduces of codecs with a projection(). What differs between ranks goes unused.
  std::span<const Layer> layers;                // As in TensorShape.
  ProjectionState* projection_state = nullptr;  // Kept for this tensor, or null.
};

/// In place when send == receive.
struct AllReduceArgs {
  const void* send = nullptr;  // count elements
  void* receive = nullptr;     // count elements
  std::size_t count = 0;
};

/// In place when receive == send + rank * receive_count elements.
struct ReduceScatterArgs {
  const void* send = nullptr;  // world * receive_count elements
  void* receive = nullptr;     // receive_count elements
  std::size_t receive_count = 0;
};

/// In place when send == receive + rank * send_count elements. Bytes arrive as they were sent: pass
/// a context whose codec is an identity codec, else each value goes through the codec once (on its
/// owner too, so that all ranks agree).
struct AllGatherArgs {
  const void* send = nullptr;  // send_count elements
  void* receive = nullptr;     // world * send_count elements
  std::size_t send_count = 0;
};

/// `ring` or `sra`: an all-reduce and its two halves. Stateless; one object serves all calls.
/// Every rank ends with identical bytes, or every rank gets an error.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual Algorithm algorithm() const = 0;
  virtual Status all_reduce(const CollectiveContext& context, const AllReduceArgs& args) const = 0;
  virtual Status reduce_scatter(const CollectiveContext& context,
                                const ReduceScatterArgs& args) const = 0;
  virtual Status all_gather(const CollectiveContext& context, const AllGatherArgs& args) const = 0;
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_COLLECTIVE_H_
