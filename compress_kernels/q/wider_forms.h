// Partial sums of a ring in more bits than its first and last frames.
//
// A ring that requantises adds an error at every hop. A partial sum of h independent contributions
// has h times the variance of one, and so has its error (h^2 times, if all ranks have the same
// values). A shard's sums come from two sides (ring/collective/two_way_ring.cc), so that h is N / 2
// at most; with equal bits everywhere the errors of all hops would still make the result about
// N / 8 + 1 / 2 times worse than two quantisations do (`sra`). A bit more divides an error by about
// four. So partial sums take one bit more, and another one whenever h has grown fourfold: from 12
// contributions on, from 45, from 177. With 16 ranks that is one bit, with 64 ranks up to two.
//
// Codes of 2 bits have no room for that within 1.15 times the bytes: they stay as they are up to 3
// contributions, where errors are smallest; on the minmax grid, whose blocks have more bytes
// besides, up to 2 (on the uniform grid: regridding_codec.h). Codes of 8 bits grow to 10
// (core/bit_pack.h), and sooner: a bit is little among so many, and the rounding of scales, which
// stay as they are, is a part of the error by then.
#ifndef COMPRESS_KERNELS_Q_WIDER_FORMS_H_
#define COMPRESS_KERNELS_Q_WIDER_FORMS_H_

#include <cstddef>

#include "compress_kernels/lloyd/lloyd.h"
#include "compress_kernels/uniform/uniform.h"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels::q {

inline constexpr int kMostBits = 10;

inline bool is_partial_sum(Contributions form) {
  return form.summed > 1 && form.summed < form.world;
}

/// Contributions up to which codes of 2 bits stay as they are.
inline std::size_t narrow_sums(const UniformParameters&) {
  return 2;
}
inline std::size_t narrow_sums(const LloydParameters&) {
  return 3;
}

/// Bits a value in a form of a codec of `bits` bits.
inline int bits_of_form(int bits, Contributions form, std::size_t narrow = 3) {
  // One bit has a grid of its own, to which a second one adds little.
  if (!is_partial_sum(form) || bits == 1) return bits;
  if (bits == 2 && form.summed <= narrow) return bits;
  int wider = bits + 1;
  for (std::size_t most = bits == 8 ? 5 : 11; form.summed > most && wider < kMostBits; most *= 4)
    ++wider;
  return wider;
}

/// `Forms` of a KernelCodec, for Parameters with `bits` and `part_bits`.
template <typename Parameters>
struct WiderForms {
  static Parameters of(Parameters parameters, Contributions form) {
    parameters.bits = bits_of_form(parameters.bits, form, narrow_sums(parameters));
    return parameters;
  }
  static Parameters of_hop(const Parameters& parameters, Contributions form, Contributions part) {
    Parameters hop = of(parameters, form);
    hop.part_bits = of(parameters, part).bits;
    return hop;
  }
};

}  // namespace ringpress::compress_kernels::q

#endif  // COMPRESS_KERNELS_Q_WIDER_FORMS_H_
