// Codecs that all-reduce a small projection of a tensor instead of the tensor (PowerSGD, shared
// random coordinates). The projection is linear: the sum of the ranks' projections is that of their
// sum, so ordinary all-reduces of float32 carry it, and no rank encodes or decodes anything else.
//
// An all-reduce of such a codec has a number of rounds. In each, every rank projects x, its values
// plus its residual, to projected_count() float32 values; these are summed over the ranks with the
// codec inner(). After the last round every rank writes the result from the sums, which are the
// same everywhere, and takes as residual what of its own x did not get into them.
//
// What a projection depends on besides the values is equal on all ranks: the shape, the state, the
// random key. The collective compares tags before the first round and drops what differs.
#ifndef RINGPRESS_INTERNAL_PROJECTION_H_
#define RINGPRESS_INTERNAL_PROJECTION_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ringpress {

class Codec;

/// A part of a tensor: a matrix, stored row by row, or a vector (rows and columns 0).
struct Layer {
  std::size_t offset = 0;  // Elements of the tensor.
  std::size_t count = 0;   // rows * columns, unless it is a vector.
  std::size_t rows = 0;
  std::size_t columns = 0;
  bool exact = false;  // Its values are to be sent as they are.

  bool operator==(const Layer&) const = default;
};

/// What is known of a tensor. The layers are in ascending order and do not overlap; elements in
/// none of them are a vector. No layers: nothing is known.
struct TensorShape {
  std::size_t count = 0;
  std::span<const Layer> layers;
};

/// What a codec keeps of a tensor from call to call besides the residual.
struct ProjectionState {
  std::vector<float> values;  // Room for state_count() of them, or the state is not kept.
  // Number of the call that it comes from, plus 1: the same on two ranks, so are the values, since
  // they come from sums. 0: nothing is kept yet.
  std::uint64_t call = 0;
  std::uint64_t layers = 0;  // Hash of the layers that it was made with.
};

/// The arguments of both operations.
struct ProjectArgs {
  TensorShape shape;
  const void* values = nullptr;    // shape.count elements, any alignment.
  float* residual = nullptr;       // Null: none. Changed by finish() only.
  std::uint64_t seed = 0;          // Of whatever is random, with
  std::uint64_t step = 0;          // the number of the call.
  std::uint64_t turn = 0;          // CollectiveContext::turn; without a warm state it decides.
  float* state = nullptr;          // state_count() floats, or null. Changed by finish() only.
  bool state_is_warm = false;      // It holds what finish() left in it.
  std::span<float* const> own;     // By round: what this rank projected.
  std::span<float* const> summed;  // By round: the sums. May be changed by later rounds.
  // finish(): by round, what the inner codec dropped of what this rank projected. Null: nothing.
  std::span<float* const> dropped;
  std::size_t divisor = 1;  // finish(): the result is divided by it (averages).
  void* result = nullptr;   // finish(): shape.count elements; may be `values` itself.
};

class Projection {
 public:
  virtual ~Projection() = default;

  /// Sums the projected values: of float32, and with ReduceOp::kSum. Lives as long as this.
  virtual const Codec& inner() const = 0;
  /// At least one.
  virtual int rounds() const = 0;
  virtual std::size_t projected_count(int round, const TensorShape& shape) const = 0;
  /// Floats that are kept from call to call.
  virtual std::size_t state_count(const TensorShape& shape) const = 0;
  /// Calls of a tensor that send all of it together, each another part, by ProjectArgs::turn; 1:
  /// each call sends all.
  virtual std::size_t cycle(const TensorShape& shape) const {
    static_cast<void>(shape);
    return 1;
  }

  /// Fills args.own[round]; the sums of earlier rounds are there.
  virtual void project(int round, const ProjectArgs& args) const = 0;
  /// Writes the result, the residual and the state.
  virtual void finish(const ProjectArgs& args) const = 0;
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_PROJECTION_H_
