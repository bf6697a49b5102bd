// Calls functions of a plugin's table with arguments that no caller should give them.
#ifndef TESTS_SUPPORT_RANDOM_ARGUMENTS_H_
#define TESTS_SUPPORT_RANDOM_ARGUMENTS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <tuple>
#include <type_traits>
#include <vector>

#include "nccl_plugin/abi/types.h"

namespace ringpress::testing {

/// Numbers at and beyond every edge; pointers that are null or point to memory of this object; and
/// as a first argument, where the tables have their handles, also what never was one, and every
/// handle that a call has given.
class RandomArguments {
 public:
  explicit RandomArguments(unsigned seed) : random_(seed) {}

  /// Calls it once, and keeps the handles that it gives.
  template <typename Result, typename... Parameters>
  Result call(Result (*function)(Parameters...)) {
    block_.fill(static_cast<std::byte>(pick(2) == 0 ? 0 : 0xff));
    for (void*& slot : slots_) slot = block_.data();
    index_ = 0;
    const std::tuple<Parameters...> arguments{make<Parameters>()...};
    const Result result = std::apply(function, arguments);
    for (void* const slot : slots_) {
      if (slot != nullptr && slot != block_.data()) handles_.push_back(slot);
    }
    return result;
  }

  const std::vector<void*>& handles() const { return handles_; }

 private:
  std::size_t pick(std::size_t choices) { return random_() % choices; }

  /// The next one.
  template <typename T>
  T make() {
    const bool is_first = index_++ == 0;
    if constexpr (std::is_same_v<T, abi::Logger> || std::is_same_v<T, abi::ProfilerCallback>) {
      return nullptr;
    } else if constexpr (std::is_same_v<T, void*>) {
      return is_first ? handle() : pointer<void>();
    } else if constexpr (std::is_same_v<T, const char*>) {
      return pick(3) == 0 ? nullptr : pick(2) == 0 ? "" : "NCCL_ANYTHING";
    } else if constexpr (std::is_pointer_v<T>) {
      using Target = std::remove_pointer_t<T>;
      if constexpr (std::is_pointer_v<Target> && !std::is_same_v<Target, float*>) {
        return pick(3) == 0 ? nullptr : reinterpret_cast<T>(slots_.data());
      } else {
        return pointer<Target>();
      }
    } else {
      return static_cast<T>(number());
    }
  }

  template <typename Target>
  Target* pointer() {
    return pick(3) == 0 ? nullptr : reinterpret_cast<Target*>(block_.data());
  }

  void* handle() {
    if (!handles_.empty() && pick(2) == 0) return handles_[pick(handles_.size())];
    const std::uintptr_t wild[] = {
        0,        1, 0x1000, ~std::uintptr_t{0}, reinterpret_cast<std::uintptr_t>(block_.data()),
        random_()};
    return reinterpret_cast<void*>(wild[pick(std::size(wild))]);
  }

  std::uint64_t number() {
    constexpr std::uint64_t kEdges[] = {0,
                                        1,
                                        2,
                                        3,
                                        4,
                                        7,
                                        63,
                                        64,
                                        65536,
                                        ~std::uint64_t{0},
                                        ~std::uint64_t{0} - 1,
                                        std::numeric_limits<std::int32_t>::max(),
                                        std::uint64_t{1} << 31,
                                        std::uint64_t{1} << 32,
                                        std::uint64_t{1} << 62,
                                        std::uint64_t{1} << 63};
    return pick(8) == 0 ? random_() : kEdges[pick(std::size(kEdges))];
  }

  std::mt19937_64 random_;
  alignas(64) std::array<std::byte, 8192> block_{};
  std::array<void*, 64> slots_{};
  std::vector<void*> handles_;
  std::size_t index_ = 0;
};

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_RANDOM_ARGUMENTS_H_
