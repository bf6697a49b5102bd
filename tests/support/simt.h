// Threads of a GPU as fibers of one CPU thread: runs the agents of compress_kernels/*/*.cuh, so
// that their arithmetic and their addresses are tested without a GPU.
//
// Each thread of a block is a fiber. They run in random order and give way where a warp or a
// block meets;
// blocks run in random order, one after the other. What the hardware would refuse is an exception:
// an address that is not aligned, threads of a warp that do not meet at the same place.
#ifndef TESTS_SUPPORT_SIMT_H_
#define TESTS_SUPPORT_SIMT_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "compress_kernels/core/narrow_floats.h"
#include "tests/support/fiber.h"

namespace ringpress::testing {

inline constexpr unsigned kWarpLanes = 32;

/// Blocks of threads of one launch.
struct LaunchShape {
  unsigned blocks = 1;
  unsigned shards = 1;  // The second dimension.
  unsigned warps = 1;   // Of a block.
  std::size_t warp_memory = 0;
  std::size_t block_memory = 0;
};

/// Words that each lane of a warp shows to the others at once.
inline constexpr unsigned kMostOffered = 32;
using Offered = std::uint32_t[kWarpLanes][kMostOffered];

/// What the threads of a block share.
struct Block {
  unsigned arrived = 0;
  unsigned meetings = 0;  // How often all threads have met.
  std::vector<double> memory;
  std::vector<const void*> terms;  // Those of its threads, in a sum over them.
};

/// What the lanes of a warp share.
struct Warp {
  unsigned arrived = 0;
  unsigned meetings = 0;  // How often all lanes have met.
  Offered offered[2] = {};
  std::vector<std::uint32_t> memory;
};

/// One thread's view: the `Simt` of core/tile_agent.cuh.
class FiberSimt {
 public:
  /// Threads of a block, in kernels whose blocks work together.
  static constexpr unsigned kBlockThreads = 2 * kWarpLanes;

  FiberSimt(const LaunchShape& shape, unsigned block, unsigned shard, unsigned thread, Warp& warp,
            Block& of_block)
      : shape_(shape),
        block_(block),
        shard_(shard),
        thread_(thread),
        warp_(warp),
        of_block_(of_block) {}

  unsigned lane() const { return thread_ % kWarpLanes; }
  unsigned warp() const { return thread_ / kWarpLanes; }
  unsigned warps() const { return shape_.warps; }
  unsigned block() const { return block_; }
  unsigned blocks() const { return shape_.blocks; }
  unsigned shard() const { return shard_; }

  template <typename T>
  T load(const void* address) const {
    require_aligned(address, alignof(T));
    T value;
    std::memcpy(&value, address, sizeof value);
    return value;
  }
  template <typename T>
  void store(void* address, const T& value) const {
    require_aligned(address, alignof(T));
    std::memcpy(address, &value, sizeof value);
  }

  template <typename T, unsigned kCount>
  void shuffle_xor(T (&values)[kCount], unsigned mask) const {
    constexpr unsigned kWords = kCount * (sizeof(T) / sizeof(std::uint32_t));
    static_assert(kWords <= kMostOffered);
    std::uint32_t words[kWords];
    std::memcpy(words, values, sizeof values);
    const auto& offered = offer(words, kWords);
    std::memcpy(values, offered[lane() ^ mask], sizeof values);
  }
  template <unsigned kWidth, unsigned kCount>
  void look_up(std::uint32_t (&keys)[kCount], std::uint32_t entry) const {
    const auto& offered = offer(&entry, 1);
    for (std::uint32_t& key : keys) key = offered[lane() / kWidth * kWidth + key % kWidth][0];
  }
  bool any(bool value) const {
    const std::uint32_t word = value ? 1 : 0;
    const auto& offered = offer(&word, 1);
    return std::any_of(std::begin(offered), std::end(offered),
                       [](const auto& of_lane) { return of_lane[0] != 0; });
  }

  std::uint32_t ballot(bool value) const {
    const std::uint32_t word = value ? 1 : 0;
    const auto& offered = offer(&word, 1);
    std::uint32_t bits = 0;
    for (unsigned lane = 0; lane < kWarpLanes; ++lane) bits |= offered[lane][0] << lane;
    return bits;
  }
  unsigned count_bits(std::uint32_t word) const {
    return static_cast<unsigned>(std::popcount(word));
  }

  void atomic_add(std::uint32_t* at, std::uint32_t value) const {
    store(at, load<std::uint32_t>(at) + value);
  }
  void atomic_or(std::uint32_t* at, std::uint32_t value) const {
    store(at, load<std::uint32_t>(at) | value);
  }

  template <typename T>
  std::uint32_t narrow_pair(float a, float b) const {
    return narrow_as_hardware<T>(a) | narrow_as_hardware<T>(b) << 16;
  }

  void atomic_max(std::uint32_t* at, std::uint32_t value) const {
    store(at, std::max(load<std::uint32_t>(at), value));
  }

  std::uint32_t opaque(std::uint32_t word) const { return word; }

  void sync_warp() const {
    const unsigned meeting = warp_.meetings;
    if (++warp_.arrived == kWarpLanes) {
      warp_.arrived = 0;
      ++warp_.meetings;
    }
    while (warp_.meetings == meeting) fiber->give_way();
  }

  void* warp_memory() const { return warp_.memory.data(); }

  void sync_block() const {
    const unsigned meeting = of_block_.meetings;
    if (++of_block_.arrived == shape_.warps * kWarpLanes) {
      of_block_.arrived = 0;
      ++of_block_.meetings;
    }
    while (of_block_.meetings == meeting) fiber->give_way();
  }
  void* block_memory() const { return of_block_.memory.data(); }
  template <typename T>
  T exclusive_sum(const T& value, T& total) const {
    of_block_.terms[thread_] = &value;
    sync_block();
    T before{};
    total = {};
    for (unsigned thread = 0; thread < of_block_.terms.size(); ++thread) {
      if (thread == thread_) before = total;
      total = total + *static_cast<const T*>(of_block_.terms[thread]);
    }
    sync_block();
    return before;
  }

  Fiber* fiber = nullptr;

 private:
  /// What all lanes offer. Two sets of places: who is late in reading is not overtaken by more than
  /// one meeting.
  const Offered& offer(const std::uint32_t* values, unsigned count) const {
    Offered& offered = warp_.offered[warp_.meetings % 2];
    std::copy_n(values, count, offered[lane()]);
    sync_warp();
    return offered;
  }

  template <typename T>
  static std::uint32_t narrow_as_hardware(float value) {
    const bool is_nan = value != value;
    return is_nan ? 0x7FFFu : compress_kernels::core::narrow<T>(value).bits;
  }

  static void require_aligned(const void* address, std::size_t alignment) {
    if (reinterpret_cast<std::uintptr_t>(address) % alignment != 0) {
      throw std::logic_error("an address is not aligned");
    }
  }

  const LaunchShape& shape_;
  unsigned block_;
  unsigned shard_;
  unsigned thread_;
  Warp& warp_;
  Block& of_block_;
};

/// Runs the fibers of one block to their ends, each round in another order.
inline void run_fibers(std::vector<std::unique_ptr<Fiber>>& fibers, const std::vector<Warp>& warps,
                       const Block& block, std::mt19937& engine) {
  const auto meetings = [&] {
    return std::accumulate(warps.begin(), warps.end(), block.meetings,
                           [](unsigned sum, const Warp& warp) { return sum + warp.meetings; });
  };
  std::vector<std::size_t> waiting(fibers.size());
  std::iota(waiting.begin(), waiting.end(), 0u);
  while (!waiting.empty()) {
    const unsigned met = meetings();
    const std::size_t left = waiting.size();
    std::shuffle(waiting.begin(), waiting.end(), engine);
    for (const std::size_t i : waiting) fibers[i]->resume();
    std::erase_if(waiting, [&](std::size_t i) { return fibers[i]->is_done(); });
    if (meetings() == met && waiting.size() == left) {
      throw std::logic_error("threads of a warp or a block wait at different places");
    }
  }
}

/// Runs body(simt) as each thread of a launch.
template <typename Body>
void launch(const LaunchShape& shape, std::uint32_t seed, Body&& body) {
  std::mt19937 engine(seed);
  std::vector<unsigned> blocks(std::size_t{shape.blocks} * shape.shards);
  std::iota(blocks.begin(), blocks.end(), 0u);
  std::shuffle(blocks.begin(), blocks.end(), engine);
  for (const unsigned block : blocks) {
    std::vector<Warp> warps(shape.warps);
    for (Warp& warp : warps) warp.memory.assign(shape.warp_memory / 4, engine());
    Block shared;
    shared.memory.assign(shape.block_memory / sizeof(double), engine());
    shared.terms.resize(std::size_t{shape.warps} * kWarpLanes);
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::vector<std::unique_ptr<FiberSimt>> threads;
    for (unsigned thread = 0; thread < shape.warps * kWarpLanes; ++thread) {
      threads.push_back(std::make_unique<FiberSimt>(shape, block % shape.blocks,
                                                    block / shape.blocks, thread,
                                                    warps[thread / kWarpLanes], shared));
      FiberSimt* const simt = threads.back().get();
      fibers.push_back(std::make_unique<Fiber>([simt, &body] { body(std::as_const(*simt)); }));
      simt->fiber = fibers.back().get();
    }
    run_fibers(fibers, warps, shared, engine);
  }
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_SIMT_H_
