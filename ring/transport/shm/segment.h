// The shared memory of one rank, as its peers on this host see it.
//
//   page 0            doorbell and sleep flag of the owner
//   frame queues      one for each rank of the world: frames from the owner to that rank
//   bounce rings      one for each rank: payloads that are copied
//   staging           what allocate() hands out: payloads that are read in place
//
// It is a memory file without a name: it is passed over a local socket and vanishes with the last
// process that has it, however that ends. Only pages of ranks that are connected, and staging that
// is used, take memory.
//
// Memory order: every word that tells the other side something is stored and loaded sequentially
// consistent, because "I publish, then look whether you sleep" meets "I say that I sleep, then look
// whether there is something".
#ifndef RING_TRANSPORT_SHM_SEGMENT_H_
#define RING_TRANSPORT_SHM_SEGMENT_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "ring/transport/common/frame.h"
#include "ring/transport/common/socket.h"
#include "ringpress/internal/buffer.h"

namespace ringpress::ring::transport::shm {

inline constexpr std::size_t kSlots = 64;  // Frames of one queue that may be under way.
inline constexpr std::size_t kBounceBytes = std::size_t{1} << 18;
static_assert((kBounceBytes & (kBounceBytes - 1)) == 0);

enum class PayloadLocation : std::uint32_t {
  kBounce = 1,   // Next payload_bytes bytes of the bounce ring.
  kStaging = 2,  // At `where` in the owner's segment, until the frame is released.
  kProcess = 3,  // At address `where` of the owner's process, until the frame is released.
};

struct alignas(128) Slot {
  FrameHeader header;
  PayloadLocation location = PayloadLocation::kBounce;
  std::uint64_t where = 0;
  std::atomic<std::uint64_t> released{0};  // Number, from 1, of the last frame that is given back.
};
static_assert(sizeof(Slot) == 128);

/// Written by the owner, but for `consumed` and Slot::released.
struct alignas(128) FrameQueue {
  alignas(64) std::atomic<std::uint64_t> posted{0};  // Frames.
  std::atomic<std::uint64_t> produced{0};            // Bytes written to the bounce ring.
  std::atomic<std::uint32_t> withdrawn{0};  // The sender failed: its memory may change now.
  alignas(64) std::atomic<std::uint64_t> consumed{0};      // Bytes read from the bounce ring.
  alignas(64) std::atomic<std::uint32_t> sender_waits{0};  // For room.
  std::array<Slot, kSlots> slots;
};

struct alignas(4096) SegmentHead {
  alignas(64) std::atomic<std::uint32_t> doorbell{0};  // Counts what happened for the owner.
  alignas(64) std::atomic<std::uint32_t> sleeping{0};  // The owner must be woken.
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// A mapping of a segment, one's own or a peer's.
class Segment {
 public:
  /// Makes a segment for a rank of a world of `world` ranks.
  static Result<std::unique_ptr<Segment>> create(std::uint32_t world);
  /// Maps a peer's. The file keeps its size for ever (it is sealed), so reads cannot fault.
  static Result<std::unique_ptr<Segment>> map(int descriptor, std::uint32_t world);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  SegmentHead& head() const { return *reinterpret_cast<SegmentHead*>(base_); }
  FrameQueue& queue(std::uint32_t rank) const;
  std::byte* bounce(std::uint32_t rank) const;
  /// Takes the pages of a rank's queue and bounce ring now instead of one by one when frames first
  /// reach them: a fault costs as much as a small frame.
  void populate(std::uint32_t rank) const;

  /// Page-aligned memory of the staging area; null data when that is used up.
  Buffer allocate(std::size_t bytes);
  /// The offset of a payload that lies in the staging area, or 0.
  std::uint64_t offset_of(ConstBuffer payload) const;
  /// The payload at an offset that a peer named, or null if it is not all in the staging area.
  const std::byte* at(std::uint64_t offset, std::uint64_t bytes) const;
  int descriptor() const { return file_.get(); }

 private:
  Segment(Fd file, std::byte* base, std::uint32_t world);

  Fd file_;  // Own segments only.
  std::byte* base_;
  std::uint32_t world_;
  std::size_t total_bytes_;
  std::size_t next_free_;  // Offset.
};

}  // namespace ringpress::ring::transport::shm

#endif  // RING_TRANSPORT_SHM_SEGMENT_H_
