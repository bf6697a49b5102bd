// What goes into an all-reduce and what must come out of it.
#ifndef PERF_ALL_REDUCE_WORKLOAD_H_
#define PERF_ALL_REDUCE_WORKLOAD_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "perf/all_reduce/elements.h"

namespace ringpress::perf {

/// Values of one rank and the exact result, by element index, in blocks of any size.
class Workload {
 public:
  virtual ~Workload() = default;
  /// This rank's elements first, first + 1, ...
  virtual void own_values(std::size_t first, std::span<double> values) const = 0;
  /// What the all-reduce of those elements yields without any rounding of inputs.
  virtual void expected(std::size_t first, std::span<double> values) const = 0;
  /// True if every order of summation gives exactly expected(), so that one wrong bit is an error.
  virtual bool sums_exactly() const = 0;
};

/// Bell-shaped pseudo-random values from (seed, rank, index), the same on every machine. Sums are
/// made of integers small enough to be exact in the element type, whatever the order.
class GeneratedWorkload : public Workload {
 public:
  struct Shape {
    ElementType type;
    Operation operation = Operation::kSum;
    int rank = 0;
    int ranks = 1;
    std::uint64_t seed = 1;
  };
  explicit GeneratedWorkload(const Shape& shape);

  void own_values(std::size_t first, std::span<double> values) const override;
  void expected(std::size_t first, std::span<double> values) const override;
  bool sums_exactly() const override { return true; }

  /// What ncclRedOpCreatePreMulSum is given for Operation::kMulSum: a power of two.
  static constexpr double kPreMultiplier = 2;

 private:
  double value(int rank, std::size_t index) const;

  Shape shape_;
  double largest_step_;  // Values are integers in [-largest_step_, largest_step_] times unit_.
  double unit_;
  int active_ranks_;  // Ranks from here on contribute the neutral element.
};

/// Recorded values, repeated end to end.
class RecordedWorkload : public Workload {
 public:
  /// `sums` has as many elements as `own`.
  RecordedWorkload(std::vector<float> own, std::vector<double> sums);

  void own_values(std::size_t first, std::span<double> values) const override;
  void expected(std::size_t first, std::span<double> values) const override;
  bool sums_exactly() const override { return false; }

 private:
  std::vector<float> own_;
  std::vector<double> sums_;
};

/// How many in-place calls in a row keep a float finite: each multiplies values by the number of
/// ranks. Products grow faster than that, so their input is renewed every time.
int calls_until_overflow(const ElementType& type, Operation operation, int ranks);

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_WORKLOAD_H_
