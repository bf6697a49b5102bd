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
      : bits_(bits), layout_(layout), wire_(reinterpret_cast<std::uint8_t*>(wire)) {}

  /// Where the tile's codes stand, in bytes from the start of a wire.
  std::size_t code_offset(Span span) const {
    return layout_.codes_offset + span.first * static_cast<std::size_t>(bits_) / 8;
  }
  std::uint8_t* wire_codes(Span span) const { return wire_ + code_offset(span); }

  /// Whether kSlack bytes follow the tile's codes in every wire of this layout.
  bool has_slack(Span span) const {
    return code_offset(span) + code_bytes(span) + kSlack <= layout_.total_bytes;
  }

  /// Where a kernel writes the tile's codes, with room for kSlack bytes more. Call store() when
  /// they are there.
  std::uint8_t* target(Span span, Tile& tile) const {
    return is_direct(span) ? wire_codes(span) : tile.codes;
  }

  void store(Span span, Tile& tile) const {
    if (is_direct(span)) return;
    clear_unused_bits(span, tile.codes);
    if (streams()) {
      arrays::stream_bytes(tile.codes, wire_codes(span), code_bytes(span));
    } else {
      std::memcpy(wire_codes(span), tile.codes, code_bytes(span));
    }
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

  std::size_t code_bytes(Span span) const { return core::packed_bytes(span.elements, bits_); }

  void clear_unused_bits(Span span, std::uint8_t* codes) const {
    const std::size_t used_bits = span.elements * static_cast<std::size_t>(bits_);
    if (used_bits % 8 != 0) {
      const unsigned mask = (1u << (used_bits % 8)) - 1u;
      codes[used_bits / 8] = static_cast<std::uint8_t>(codes[used_bits / 8] & mask);
    }
  }

  int bits_;
  UniformLayout layout_;
  std::uint8_t* wire_;
};

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::uniform
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
