// Memory for what lasts as long as a call. (That of the standard library, a pool resource, is of no
// use here: libstdc++'s hands out null pointers where the program is out of memory.)
#ifndef NCCL_PLUGIN_SESSION_BLOCK_POOL_H_
#define NCCL_PLUGIN_SESSION_BLOCK_POOL_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <memory_resource>
#include <new>

namespace ringpress::nccl_plugin {

/// Keeps the blocks that it is given back, in lists by their size, a power of two, for those who
/// come next; all of them until it ends. Throws std::bad_alloc. For one thread at a time.
class BlockPool final : public std::pmr::memory_resource {
 public:
  /// Larger blocks are not kept.
  explicit BlockPool(std::size_t largest_kept_bytes)
      : kept_sizes_(static_cast<unsigned>(std::bit_width(largest_kept_bytes))) {}
  ~BlockPool() override { give_back(); }
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// Frees what is kept for later.
  void give_back() {
    for (Block*& first : free_) {
      while (first != nullptr) {
        Block* const next = first->next;
        ::operator delete(first, kAlignment);
        first = next;
      }
    }
  }
  /// Of what is kept for later.
  std::size_t spare_bytes() const {
    std::size_t bytes = 0;
    for (unsigned size = 0; size < kSizes; ++size) {
      for (const Block* block = free_[size]; block != nullptr; block = block->next) {
        bytes += std::size_t{1} << size;
      }
    }
    return bytes;
  }

 private:
  struct Block {
    Block* next;
  };
  static constexpr std::align_val_t kAlignment{64};
  static constexpr unsigned kSizes = 64;

  /// The power of two that a block has.
  static unsigned size_of(std::size_t bytes) {
    return static_cast<unsigned>(std::bit_width(std::max(bytes, sizeof(Block)) - 1));
  }
  bool keeps(unsigned size, std::size_t alignment) const {
    return size < kept_sizes_ && std::align_val_t(alignment) <= kAlignment;
  }

  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    const unsigned size = size_of(bytes);
    if (!keeps(size, alignment)) return ::operator new(bytes, std::align_val_t(alignment));
    Block* const block = free_[size];
    if (block == nullptr) return ::operator new (std::size_t{1} << size, kAlignment);
    free_[size] = block->next;
    return block;
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    const unsigned size = size_of(bytes);
    if (!keeps(size, alignment)) return ::operator delete(memory, std::align_val_t(alignment));
    free_[size] = new (memory) Block{free_[size]};
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  const unsigned kept_sizes_;
  std::array<Block*, kSizes> free_{};
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_BLOCK_POOL_H_
