// Operations on ranges of a tensor whose parts may have codecs of their own. A range is encoded
// part by part, and its bytes are those of its parts, one after the other.
#ifndef RING_COLLECTIVE_PART_CODECS_H_
#define RING_COLLECTIVE_PART_CODECS_H_

#include <cstddef>
#include <memory_resource>
#include <span>
#include <vector>

#include "ring/collective/schedule.h"
#include "ringpress/internal/collective.h"

namespace ringpress::ring {

/// Of one call. The arguments of all operations are those for the whole range, whose offset is that
/// in the tensor: a multiple of kTileElements. Where the tensor has no parts, they go to its one
/// codec as they are.
class PartCodecs {
 public:
  /// `context` outlives this.
  explicit PartCodecs(const CollectiveContext& context);

  /// An upper bound, unless all codecs are of fixed size.
  std::size_t wire_bytes(const Range& range, Contributions form) const;
  std::size_t encode(const Range& range, const EncodeArgs& args) const;
  void decode(const Range& range, const DecodeArgs& args) const;
  std::size_t decode_add_encode(const Range& range, const DecodeAddEncodeArgs& args);

 private:
  template <typename Take>
  void for_each_part(const Range& range, Take&& take) const;

  const Codec& whole_;
  const std::span<const CodecPart> parts_;
  const std::size_t element_bytes_;
  // What decode_add_encode() reads of a part, by contribution.
  std::pmr::vector<const std::byte*> wires_;
  std::pmr::vector<std::size_t> wire_sizes_;
};

}  // namespace ringpress::ring

#endif  // RING_COLLECTIVE_PART_CODECS_H_
