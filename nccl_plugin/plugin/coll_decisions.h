// What is decided of each call of a CollNet communicator. All nodes must decide alike: from the
// calls, which come to all in one order, from what NCCL has told of the operation that a call is of
// (profiled_tensors.h), and from what the nodes agreed on when they connected. Nothing else is
// looked at.
#ifndef NCCL_PLUGIN_PLUGIN_COLL_DECISIONS_H_
#define NCCL_PLUGIN_PLUGIN_COLL_DECISIONS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "nccl_plugin/plugin/profiled_tensors.h"
#include "nccl_plugin/plugin/staging.h"
#include "ringpress/internal/communicator.h"

namespace ringpress::nccl_plugin::plugin {

inline constexpr std::size_t kCollWorkers = 2;  // A pair.

/// What NCCL hands over: host memory, which stays until the call is done. `send` and `receive` are
/// the same, or apart: then `send` is NCCL's staging memory, and may be zero when the call is done.
struct CollCall {
  void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  DType dtype = DType::kFloat32;
  const void* address = nullptr;  // For the request, of NCCL's.
};

struct CollDecision {
  std::size_t worker = 0;
  PiecewiseTensor tensor;  // As the worker sees it: the pieces that go through it.
  bool starts_tensor = true;
  std::size_t first = 0;        // Of the tensor.
  std::size_t valid_count = 0;  // Of the call's: what lies behind is garbage.
  std::uint64_t tag = 0;        // What the program calls the tensor; 0: nothing. It changes nothing
                                // that nodes must agree on: NCCL does not compare it.
  bool clears_staging = false;  // Zeros `send` when done.
};

/// One thread: that which makes the calls.
class CollDecisions {
 public:
  CollDecisions() = default;
  /// `part`: what NCCL tells every node of the tensors that it has reduced here.
  explicit CollDecisions(TensorPart part) : part_(part) {}

  CollDecision decide(const CollCall& call, ProfiledTensors* profiled);

  TensorPart part() const { return part_; }
  /// There was a call of which nothing is known.
  bool has_unknown() const { return has_unknown_; }

 private:
  std::optional<TensorPiece> known_piece(const CollCall& call, ProfiledTensors* profiled) const;
  void use_staging(const CollCall& call, CollDecision* decision);
  void know(const TensorPiece& piece, CollDecision* decision);

  TensorPart part_ = TensorPart::kNothing;
  bool has_unknown_ = false;
  Staging staging_;
  std::size_t next_worker_ = 0;
  std::array<std::size_t, kCollWorkers> worker_first_{};  // Where each worker's next piece begins.
};

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_COLL_DECISIONS_H_
