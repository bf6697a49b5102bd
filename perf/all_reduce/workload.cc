#include "perf/all_reduce/workload.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "nccl_plugin/command/terminal/error.h"

namespace ringpress::perf {
namespace {

/// A well-mixed 64-bit hash of (seed, rank, index): Stafford's variant 13 of the MurmurHash3
/// finaliser over a Weyl sequence.
std::uint64_t hash_of(std::uint64_t seed, int rank, std::size_t index) {
  std::uint64_t bits = seed + static_cast<std::uint64_t>(rank) * 0xD1B54A32D192ED03ULL +
                       static_cast<std::uint64_t>(index + 1) * 0x9E3779B97F4A7C15ULL;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9ULL;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBULL;
  return bits ^ (bits >> 31);
}

/// The sum of four uniform numbers, shifted and scaled to [-1, 1]: close to normal, sd 0.29.
double bell(std::uint64_t bits) {
  constexpr double kHalfRange = 2 * 65535.0;
  const auto sum = static_cast<double>((bits & 0xFFFF) + ((bits >> 16) & 0xFFFF) +
                                       ((bits >> 32) & 0xFFFF) + (bits >> 48));
  return (sum - kHalfRange) / kHalfRange;
}

// Gradients are small; and an exact sum needs no more than this many steps a value.
constexpr double kMostSteps = 131072;

// A product leaves the range of fp8 quickly: only so many ranks contribute a factor other than +-1.
constexpr int kDoublingRanks = 3;

}  // namespace

GeneratedWorkload::GeneratedWorkload(const Shape& shape) : shape_(shape) {
  const double exact_range = std::ldexp(1.0, shape.type.significant_bits) - 1;
  const double growth = shape.operation == Operation::kMulSum ? kPreMultiplier : 1;
  const double share = std::floor(exact_range / (shape.ranks * growth));
  largest_step_ = std::clamp(share, 1.0, kMostSteps);
  active_ranks_ =
      std::min(shape.ranks, static_cast<int>(std::min(exact_range / growth, 1048576.0)));
  const int unit_exponent = shape.type.is_float ? -std::ilogb(largest_step_) : 0;
  unit_ = std::ldexp(1.0, unit_exponent);
}

double GeneratedWorkload::value(int rank, std::size_t index) const {
  const std::uint64_t bits = hash_of(shape_.seed, rank, index);
  if (shape_.operation == Operation::kProd) {
    const double size = rank < kDoublingRanks && (bits & 1) != 0 ? 2 : 1;
    return shape_.type.is_signed && (bits & 2) != 0 ? -size : size;
  }
  if (rank >= active_ranks_) return 0;
  const double steps = std::nearbyint(bell(bits) * largest_step_);
  return (shape_.type.is_signed ? steps : std::fabs(steps)) * unit_;
}

void GeneratedWorkload::own_values(std::size_t first, std::span<double> values) const {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(shape_.rank, first + i);
}

void GeneratedWorkload::expected(std::size_t first, std::span<double> values) const {
  for (std::size_t i = 0; i < values.size(); ++i) {
    double result = value(0, first + i);
    for (int rank = 1; rank < shape_.ranks; ++rank) {
      const double other = value(rank, first + i);
      switch (shape_.operation) {
        case Operation::kSum:
        case Operation::kAvg:
        case Operation::kMulSum:
          result += other;
          break;
        case Operation::kProd:
          result *= other;
          break;
        case Operation::kMax:
          result = std::max(result, other);
          break;
        case Operation::kMin:
          result = std::min(result, other);
          break;
      }
    }
    if (shape_.operation == Operation::kMulSum) result *= kPreMultiplier;
    if (shape_.operation == Operation::kAvg) {
      result /= shape_.ranks;
      if (!shape_.type.is_float) result = std::trunc(result);
    }
    values[i] = result;
  }
}

RecordedWorkload::RecordedWorkload(std::vector<float> own, std::vector<double> sums)
    : own_(std::move(own)), sums_(std::move(sums)) {
  if (own_.empty() || own_.size() != sums_.size())
    throw terminal::Error("the input holds no values");
}

void RecordedWorkload::own_values(std::size_t first, std::span<double> values) const {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = own_[(first + i) % own_.size()];
}

void RecordedWorkload::expected(std::size_t first, std::span<double> values) const {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = sums_[(first + i) % sums_.size()];
}

int calls_until_overflow(const ElementType& type, Operation operation, int ranks) {
  constexpr int kNever = 1 << 30;
  if (!type.is_float || ranks == 1) return kNever;
  switch (operation) {
    case Operation::kMax:
    case Operation::kMin:
    case Operation::kAvg:
      return kNever;
    case Operation::kProd:
      return 1;
    case Operation::kSum:
    case Operation::kMulSum:
      break;
  }
  const double factor =
      ranks * (operation == Operation::kMulSum ? GeneratedWorkload::kPreMultiplier : 1);
  // Inputs are below 4.
  return std::max(1, static_cast<int>((type.largest_exponent - 2) / std::log2(factor)));
}

}  // namespace ringpress::perf
