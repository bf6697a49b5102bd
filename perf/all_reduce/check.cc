#include "perf/all_reduce/check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ringpress::perf {
namespace {

// Elements that are converted at a time; small enough for the L2 cache.
constexpr std::size_t kBlockElements = 16384;

/// Sums over the elements of one rank.
struct Tally {
  std::int64_t wrong = 0;
  double squared_error = 0;
  double squared_norm = 0;
  Magnitudes magnitudes;
};

/// The larger one, or NaN once there was one: a maximum must not hide it.
double maximum(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}

bool is_wrong(double actual, double expected, Strictness strictness, int significant_bits) {
  switch (strictness) {
    case Strictness::kExact:
      return !(actual == expected);
    case Strictness::kLastPlace:
      return !(std::fabs(actual - expected) <=
               std::ldexp(std::fabs(expected), 1 - significant_bits));
    case Strictness::kFinite:
      return std::isfinite(expected) && !std::isfinite(actual);
  }
  return true;
}

void add_to(Tally& tally, const std::vector<double>& actual, const std::vector<double>& expected,
            Strictness strictness, int significant_bits) {
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double difference = actual[i] - expected[i];
    tally.squared_error += difference * difference;
    tally.squared_norm += expected[i] * expected[i];
    tally.magnitudes.largest_error = maximum(tally.magnitudes.largest_error, std::fabs(difference));
    tally.magnitudes.largest_exact =
        maximum(tally.magnitudes.largest_exact, std::fabs(expected[i]));
    tally.wrong += is_wrong(actual[i], expected[i], strictness, significant_bits) ? 1 : 0;
  }
}

double relative_error_of(const Tally& tally) {
  if (tally.squared_error == 0) return 0;
  if (tally.squared_norm == 0) return std::numeric_limits<double>::infinity();
  return std::sqrt(tally.squared_error / tally.squared_norm);
}

CheckResult combine(const Tally& tally, XXH64_hash_t digest, Group& control) {
  struct Finding {
    std::int64_t wrong;
    double relative_error;
    Magnitudes magnitudes;
    XXH64_hash_t digest;
  };
  const Finding own = {tally.wrong, relative_error_of(tally), tally.magnitudes, digest};
  const std::vector<std::byte> gathered = control.gather(&own, sizeof own);
  CheckResult result;
  for (std::size_t at = 0; at < gathered.size(); at += sizeof own) {
    Finding finding;
    std::copy_n(gathered.data() + at, sizeof finding, reinterpret_cast<std::byte*>(&finding));
    result.wrong_elements += finding.wrong;
    result.identical = result.identical && finding.digest == digest;
    Magnitudes& all = result.magnitudes;
    all.largest_error = maximum(all.largest_error, finding.magnitudes.largest_error);
    all.largest_exact = maximum(all.largest_exact, finding.magnitudes.largest_exact);
    all.largest_inputs += finding.magnitudes.largest_inputs;
    const bool worse = !(finding.relative_error <= result.relative_error);
    if (worse && !std::isnan(result.relative_error)) result.relative_error = finding.relative_error;
  }
  return result;
}

}  // namespace

void fill(const Workload& workload, const ElementType& type, std::size_t count,
          DeviceBuffer& buffer) {
  std::vector<double> values;
  std::vector<std::byte> elements;
  for (std::size_t first = 0; first < count; first += kBlockElements) {
    values.resize(std::min(kBlockElements, count - first));
    elements.resize(values.size() * type.bytes);
    workload.own_values(first, values);
    store_elements(type, values, elements.data());
    buffer.write(first * type.bytes, elements.data(), elements.size());
  }
}

CheckResult check(const Workload& workload, const ElementType& type, std::size_t count,
                  const DeviceBuffer& output, Strictness strictness, Group& control) {
  Tally tally;
  XXH3_state_t digest;
  XXH3_64bits_reset(&digest);
  std::vector<double> actual;
  std::vector<double> expected;
  std::vector<std::byte> elements;
  for (std::size_t first = 0; first < count; first += kBlockElements) {
    const std::size_t block = std::min(kBlockElements, count - first);
    actual.resize(block);
    expected.resize(block);
    elements.resize(block * type.bytes);
    workload.own_values(first, actual);
    for (const double value : actual) {
      tally.magnitudes.largest_inputs = maximum(tally.magnitudes.largest_inputs, std::fabs(value));
    }
    workload.expected(first, expected);
    if (strictness != Strictness::kFinite) {
      // The element type holds the expected value in its own precision.
      store_elements(type, expected, elements.data());
      load_elements(type, elements.data(), expected);
    }
    output.read(first * type.bytes, elements.data(), elements.size());
    XXH3_64bits_update(&digest, elements.data(), elements.size());
    load_elements(type, elements.data(), actual);
    add_to(tally, actual, expected, strictness, type.significant_bits);
  }
  return combine(tally, XXH3_64bits_digest(&digest), control);
}

bool holds_same_bytes(const DeviceBuffer& buffer, std::size_t bytes, Group& control) {
  std::vector<std::byte> own(bytes);
  buffer.read(0, own.data(), bytes);
  const XXH64_hash_t digest = XXH3_64bits(own.data(), bytes);
  const std::vector<std::byte> gathered = control.gather(&digest, sizeof digest);
  for (std::size_t at = 0; at < gathered.size(); at += sizeof digest) {
    if (std::memcmp(gathered.data() + at, &digest, sizeof digest) != 0) return false;
  }
  return true;
}

}  // namespace ringpress::perf
