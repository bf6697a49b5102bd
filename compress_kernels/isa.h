// Which instruction set the kernels use: the widest that this CPU has, or the one that was forced.
#ifndef COMPRESS_KERNELS_ISA_H_
#define COMPRESS_KERNELS_ISA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ringpress/internal/status.h"

namespace ringpress::compress_kernels {

/// A bit of Highway's target mask, or kScalarTarget for the reference.
inline constexpr std::int64_t kScalarTarget = 0;

struct Isa {
  std::string name;
  std::int64_t target = kScalarTarget;
};

/// The reference, then what this build and this CPU have, narrowest first.
const std::vector<Isa>& isa_list();

/// The instruction set for codecs made now.
Isa selected_isa();

Status select_isa(const std::string& name);

/// The kernels of the selected instruction set, or the reference where there are none for it, or no
/// `simd` at all.
template <typename Kernels>
const Kernels& selected_kernels(const Kernels& reference,
                                const Kernels* (*simd)(std::int64_t) = nullptr) {
  const std::int64_t target = selected_isa().target;
  const bool has_kernels = simd != nullptr && target != kScalarTarget;
  const Kernels* kernels = has_kernels ? simd(target) : nullptr;
  return kernels != nullptr ? *kernels : reference;
}

}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_ISA_H_
