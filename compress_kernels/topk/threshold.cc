#include "compress_kernels/topk/threshold.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "compress_kernels/topk/source.h"
#include "ringpress/internal/per_thread.h"

namespace ringpress::compress_kernels::topk {
namespace {

// Sources up to this size are their own sample.
constexpr std::size_t kSmallSource = 8192;
// A sample is taken in runs of neighbours: each costs a cache line. Longer ones would tell little
// more, as neighbours are often alike.
constexpr std::size_t kRun = 4;
constexpr std::size_t kMostRuns = 16384;
constexpr std::size_t kSourcePerRun = 128;
constexpr std::size_t kRunsAhead = 24;  // Are on their way from memory.
// How far off a sample may be; a second try for values that are not spread evenly.
constexpr double kSlacks[] = {4.5, 40};
constexpr int kDigitBits = 11;

/// Bins of keys by their value, for keys that lie in a range.
class Bins {
 public:
  static constexpr std::size_t kCount = std::size_t{1} << kDigitBits;

  /// For keys from `low` to `high`.
  Bins(std::uint64_t low, std::uint64_t high)
      : low_(low), shift_(std::max(0, static_cast<int>(std::bit_width(high - low)) - kDigitBits)) {}

  std::size_t of(std::uint64_t key) const { return (key - low_) >> shift_; }
  void add(std::uint64_t key) { ++counts_[of(key)]; }
  /// The bin of the k-th largest key; `k` becomes its rank in there.
  std::size_t find(std::size_t* k) const {
    std::size_t bin = kCount - 1;
    for (; bin > 0 && counts_[bin] < *k; --bin) *k -= counts_[bin];
    return bin;
  }
  std::uint64_t first_key(std::size_t bin) const { return low_ + (std::uint64_t{bin} << shift_); }
  std::uint64_t last_key(std::size_t bin) const {
    return first_key(bin) + ((std::uint64_t{1} << shift_) - 1);
  }

 private:
  std::uint64_t low_;
  int shift_;
  std::array<std::size_t, kCount> counts_{};
};

/// The key of this rank, from 1, by size; reorders them.
std::uint64_t key_of_rank(std::vector<std::uint64_t>& keys, std::size_t rank) {
  const auto wanted = keys.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(keys.begin(), wanted, keys.end(), std::greater<>());
  return *wanted;
}

/// The k-th largest of keys that lie in a window; drops others.
std::uint64_t kth_largest(std::vector<std::uint64_t>& keys, const Window& window, std::size_t k) {
  if (keys.size() > Bins::kCount) {
    Bins bins(window.low, window.high);
    for (const std::uint64_t key : keys) bins.add(key);
    const std::size_t bin = bins.find(&k);
    std::erase_if(keys, [&](std::uint64_t key) { return bins.of(key) != bin; });
  }
  return key_of_rank(keys, k);
}

/// Keys from all over the source.
template <typename T>
void take_sample(const Source& source, std::vector<std::uint64_t>* keys) {
  const std::size_t runs = std::min(kMostRuns, source.count / kSourcePerRun);
  const std::size_t stride = source.count / runs;
  // Not at regular places: rows of a matrix may be.
  const auto place = [&](std::size_t run) {
    return run * stride + (hash_of(run) * (stride - kRun + 1) >> 32);
  };
  keys->clear();
  for (std::size_t run = 0; run < runs; ++run) {
    const std::size_t later = place(std::min(run + kRunsAhead, runs - 1));
    __builtin_prefetch(static_cast<const std::byte*>(source.values) + later * sizeof(T));
    const std::size_t first = place(run);
    for (std::size_t i = first; i < first + kRun; ++i) keys->push_back(key_at<T>(source, i));
  }
}

/// Leaves of `keys` those from rank `first` to rank `last` (from 1, by size), and a few around
/// them. Returns how many larger ones are gone.
std::size_t keep_ranks(std::vector<std::uint64_t>& keys, std::size_t first, std::size_t last) {
  Bins bins(0, std::uint64_t{core::kMagnitudeMask} << 32 | 0xFFFFFFFFu);
  for (const std::uint64_t key : keys) bins.add(key);
  std::size_t rank_in_first = first;
  std::size_t rank_in_last = last;
  const std::uint64_t high = bins.last_key(bins.find(&rank_in_first));
  const std::uint64_t low = bins.first_key(bins.find(&rank_in_last));
  std::erase_if(keys, [&](std::uint64_t key) { return key < low || key > high; });
  return first - rank_in_first;
}

/// A window around the k-th largest of `count` keys, of which `sample` is a sample. `slack`: how
/// far off its rank in there may be, in standard deviations of independent draws.
Window choose_window(std::vector<std::uint64_t>& sample, std::size_t count, std::size_t k,
                     double slack) {
  const double size = static_cast<double>(sample.size());
  const double rank = size * static_cast<double>(k) / static_cast<double>(count);
  const double margin = slack * (std::sqrt(rank) + 1);
  const auto first = static_cast<std::size_t>(std::max(1.0, rank - margin));
  const auto last = static_cast<std::size_t>(std::min(size, rank + margin + 1));
  const std::size_t gone = keep_ranks(sample, first, last);
  Window window;
  if (rank + margin < size) window.low = limit_threshold(key_of_rank(sample, last - gone));
  if (rank - margin > 1) window.high = limit_threshold(key_of_rank(sample, first - gone));
  return window;
}

/// The k-th largest key if the candidates tell, else nothing.
std::optional<std::uint64_t> find_among(Candidates& candidates, const Window& window,
                                        std::size_t k) {
  if (candidates.gave_up) return std::nullopt;
  if (candidates.above >= k) {
    if (window.high == kLargestThreshold) return kLargestThreshold;
    return std::nullopt;
  }
  if (candidates.above + candidates.keys.size() < k) {
    if (window.low == kSmallestThreshold) return kSmallestThreshold;
    return std::nullopt;
  }
  return kth_largest(candidates.keys, window, k - candidates.above);
}

/// The k-th largest key, whatever the keys: some bits of it in each pass.
std::uint64_t find_by_digits(const Source& source, std::size_t k) {
  Window window;
  for (bool is_first = true; window.low < window.high; is_first = false) {
    Bins bins(window.low, window.high);
    std::size_t above = 0;
    std::size_t inside = 0;
    for (std::size_t i = 0; i < source.count; ++i) {
      const std::uint64_t key = key_at(source, i);
      if (key > window.high) ++above;
      if (key < window.low || key > window.high) continue;
      bins.add(key);
      ++inside;
    }
    if (is_first && above >= k) return kLargestThreshold;
    if (is_first && above + inside < k) return kSmallestThreshold;
    if (is_first) k -= above;
    const std::size_t bin = bins.find(&k);
    window = {bins.first_key(bin), std::min(window.high, bins.last_key(bin))};
  }
  return window.low;
}

/// Kept by the thread: fresh memory for each call would cost more than the sample.
struct Scratch {
  std::vector<std::uint64_t> sample;
  Candidates candidates;
};
Scratch& scratch() {
  static const auto& kept = *new PerThread<Scratch>;
  return kept.get([] { return std::make_unique<Scratch>(); });
}

}  // namespace

std::uint64_t find_threshold_with(Collect collect, const Source& source, std::size_t k) {
  if (source.count == 0 || k == 0) return kLargestThreshold;
  Scratch& kept = scratch();
  Candidates& candidates = kept.candidates;
  const bool is_small = source.count <= kSmallSource;
  for (const double slack : kSlacks) {
    Window window;
    if (!is_small) {
      core::visit_compressible(source.dtype, [&](auto tag) {
        take_sample<typename decltype(tag)::type>(source, &kept.sample);
      });
      window = choose_window(kept.sample, source.count, k, slack);
    }
    candidates.start(is_small ? source.count : source.count / 8);
    collect(source, window, &candidates);
    if (const auto key = find_among(candidates, window, k)) return *key;
  }
  return find_by_digits(source, k);
}

}  // namespace ringpress::compress_kernels::topk
