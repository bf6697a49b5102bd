// How communicators find the codecs that they have made.
#ifndef NCCL_PLUGIN_SESSION_CALLS_CODEC_KEY_H_
#define NCCL_PLUGIN_SESSION_CALLS_CODEC_KEY_H_

#include <string>
#include <string_view>
#include <tuple>

#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin {

/// What a codec was made for.
struct CodecKey {
  std::string specification;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
};

/// The same, to look one up: no string is made, so no memory is asked for.
struct CodecKeyView {
  CodecKeyView(std::string_view wanted, DType wanted_dtype, ReduceOp wanted_op)
      : specification(wanted), dtype(wanted_dtype), op(wanted_op) {}
  CodecKeyView(const CodecKey& key)  // NOLINT: not explicit; a map compares its keys so.
      : CodecKeyView(key.specification, key.dtype, key.op) {}

  std::string_view specification;
  DType dtype;
  ReduceOp op;
};

/// The order of a map that is asked by either.
struct CodecKeyLess {
  using is_transparent = void;
  bool operator()(const CodecKeyView& a, const CodecKeyView& b) const {
    return std::tie(a.specification, a.dtype, a.op) < std::tie(b.specification, b.dtype, b.op);
  }
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_CODEC_KEY_H_
