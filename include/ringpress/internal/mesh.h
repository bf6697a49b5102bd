// The mesh of one communicator: send and receive frames to and from any rank, whatever transport
// carries them. This is all that a collective sees of the network.
//
// Connections are made at first use. Every wait ends: done, or an error no later than the timeout.
// The first failure (a lost peer, a mismatch, a timeout, abort()) is final: every later call
// returns the same Status, and the reason is sent on to all connected ranks so that they fail too.
//
// Threads: one thread uses a mesh at a time; abort(), failure() and counters() may be called from
// any thread.
#ifndef RINGPRESS_INTERNAL_MESH_H_
#define RINGPRESS_INTERNAL_MESH_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ringpress/internal/buffer.h"
#include "ringpress/internal/rendezvous.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/transport.h"
#include "ringpress/internal/wire.h"

namespace ringpress {

/// Bytes that have crossed connections, for wire_bytes columns. Payload and headers are counted.
struct MeshCounters {
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
};

class Mesh {
 public:
  virtual ~Mesh() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// True if `peer` runs on this host (same kernel, same network namespace).
  virtual bool is_local(int peer) const = 0;
  /// How many ranks each host has, numbered host by host; 0 if they are not so alike. The same on
  /// all ranks.
  virtual int ranks_per_host() const = 0;
  /// A number of rank 0's that all ranks were told when they met: what it wants of them, and what
  /// it names them by.
  virtual std::uint32_t root_word() const { return 0; }

  /// Starts sending to `peer` (not this rank). `payload` must stay unchanged until wait() returns.
  virtual Result<Request*> isend(int peer, ConstBuffer payload, const FrameLabel& label) = 0;
  /// Starts receiving exactly into.bytes from `peer`.
  virtual Result<Request*> irecv(int peer, Buffer into, const FrameLabel& label) = 0;
  /// Starts receiving a frame of such a length from `peer` into the transport's memory. Release the
  /// view soon: the peer's send may end only then, so never wait for a send before releasing what
  /// came in.
  virtual Result<Request*> irecv_view(int peer, FrameLength length, const FrameLabel& label) = 0;
  /// Waits until `request` is done. For irecv_view gives the payload, valid until release().
  virtual Result<ConstBuffer> wait(Request* request) = 0;
  /// True if wait() would return at once. Moves bytes if it can; never blocks.
  virtual Result<bool> poll(Request* request) = 0;
  /// Gives a request back, done or not; after a failure all are gone already and this does nothing.
  virtual void release(Request* request) = 0;

  /// Memory from which sending is cheapest, at least `bytes` long, 64-byte aligned. Slots are
  /// numbered by the caller; asking again for a slot gives the same memory, grown if needed (its
  /// contents are then lost). Lives as long as the mesh.
  virtual Result<Buffer> staging(std::size_t slot, std::size_t bytes) = 0;
  /// Frees staging memory that the mesh can do without between calls; contents are lost.
  virtual void give_back_staging() {}
  /// Of what that frees.
  virtual std::size_t spare_bytes() const { return 0; }
  /// True if `peer` reads frames of so many bytes in staging memory where they are, which is worth
  /// a copy into it. Otherwise any memory is as good. May differ by rank and by pair.
  virtual bool reads_staging(int peer, std::size_t bytes) const = 0;

  /// From now on a wait fails that sees no progress for so long. Any thread.
  virtual void set_timeout(std::chrono::milliseconds timeout) = 0;
  /// Fails the mesh with `reason`, here and at all connected peers. Any thread.
  virtual void abort(const Status& reason) = 0;
  /// failure(), after looking at what the peers have said meanwhile. Never blocks.
  virtual Status check() = 0;
  /// The first failure, or ok. Any thread.
  virtual Status failure() const = 0;
  virtual MeshCounters counters() const = 0;
  /// The id of a mesh of those ranks that outlive this one, once it has failed, numbered in this
  /// order. The first of them serves, where it listened before. Equal on ranks that have asked
  /// equally often and name the same ranks; asked again, it is another one. Any thread.
  virtual Result<UniqueId> survivors_id(std::span<const int> survivors) {
    static_cast<void>(survivors);
    return Status(Code::kUnsupported, "its ranks cannot be reached any more");
  }
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_MESH_H_
