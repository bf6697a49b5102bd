// Where the codes of a chunk go: straight into the wire, or by way of scratch memory where stores
// of whole vectors would spill over its end or where a large wire is written around the cache.
// Compiled once per target.
#if defined(COMPRESS_KERNELS_UNIFORM_CODE_SINK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_UNIFORM_CODE_SINK_INL_H_
#undef COMPRESS_KERNELS_UNIFORM_CODE_SINK_INL_H_
#else
#define COMPRESS_KERNELS_UNIFORM_CODE_SINK_INL_H_
#endif

#include <cstring>

#include "compress_kernels/core/float_arrays-inl.h"
#include "compress_kernels/uniform/decoder-inl.h"
#include "compress_kernels/uniform/tile.h"
#include "compress_kernels/uniform/uniform.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::uniform {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

class CodeSink {
 public:
  CodeSink(int bits, const UniformLayout& layout, std::byte* wire)
      : high_bits_(core::high_plane_bits(bits)),
        low_bits_(core::low_plane_bits(bits)),
        layout_(layout),
        wire_(reinterpret_cast<std::uint8_t*>(wire)) {}

  /// Where the tile's codes stand, in bytes from the start of a wire: the first plane of them.
  std::size_t code_offset(Span span) const {
    return layout_.codes_offset + core::plane_bytes(span.first, high_bits_);
  }

  /// Whether kSlack bytes follow the tile's codes in every wire of this layout, and nothing that
  /// they must not change.
  bool has_slack(Span span) const {
    return low_bits_ == 0 &&
           code_offset(span) + core::plane_bytes(span.elements, high_bits_) + kSlack <=
               layout_.total_bytes;
  }

  /// Where a kernel writes the tile's codes, with room for kSlack bytes more. Call store() when
  /// they are there.
  core::Planes<std::uint8_t> target(Span span, Tile& tile) const {
    return is_direct(span) ? wire_codes(span) : tile.planes();
  }

  void store(Span span, Tile& tile) const {
    if (is_direct(span)) return;
    const core::Planes<std::uint8_t> wire = wire_codes(span);
    store_plane(span.elements, high_bits_, tile.codes, wire.high);
    if (low_bits_ != 0) store_plane(span.elements, low_bits_, tile.low_codes, wire.low);
  }

  /// Sets the codes of some elements, a multiple of 8 from the first on, to zero.
  void clear(Span span) const {
    const core::Planes<std::uint8_t> wire = wire_codes(span);
    std::memset(wire.high, 0, core::plane_bytes(span.elements, high_bits_));
    if (low_bits_ != 0) std::memset(wire.low, 0, core::plane_bytes(span.elements, low_bits_));
  }

  /// Makes everything visible to other threads. Call after the last tile.
  void finish() const {
    if (streams()) hwy::FlushStream();
  }

 private:
  bool streams() const { return layout_.total_bytes >= kStreamWireBytes; }

  bool is_direct(Span span) const {
    return !streams() && span.elements == kTileElements && has_slack(span);
  }

  core::Planes<std::uint8_t> wire_codes(Span span) const {
    return {wire_ + code_offset(span),
            wire_ + layout_.low_codes_offset + core::plane_bytes(span.first, low_bits_)};
  }

  void store_plane(std::size_t elements, int bits, std::uint8_t* codes, std::uint8_t* wire) const {
    const std::size_t used_bits = elements * static_cast<std::size_t>(bits);
    if (used_bits % 8 != 0) {
      const unsigned mask = (1u << (used_bits % 8)) - 1u;
      codes[used_bits / 8] = static_cast<std::uint8_t>(codes[used_bits / 8] & mask);
    }
    if (streams()) {
      arrays::stream_bytes(codes, wire, core::plane_bytes(elements, bits));
    } else {
      std::memcpy(wire, codes, core::plane_bytes(elements, bits));
    }
  }

  int high_bits_;
  int low_bits_;
  UniformLayout layout_;
  std::uint8_t* wire_;
};

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::uniform
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
