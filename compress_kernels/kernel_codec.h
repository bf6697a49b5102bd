// A codec as data: parameters and four functions. Every family (none, cast, uniform) and every
// instruction set fills one KernelTable; KernelCodec makes a Codec of it.
#ifndef COMPRESS_KERNELS_KERNEL_CODEC_H_
#define COMPRESS_KERNELS_KERNEL_CODEC_H_

#include <cstddef>
#include <string>
#include <utility>

#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels {

/// The operations of Codec for one family of parameters. Functions, not objects: no state.
template <typename Parameters>
struct KernelTable {
  void (*encode)(const Parameters&, const EncodeArgs&) = nullptr;
  void (*decode)(const Parameters&, const DecodeArgs&) = nullptr;
  void (*decode_add)(const Parameters&, const DecodeAddArgs&) = nullptr;
  void (*decode_add_encode)(const Parameters&, const DecodeAddEncodeArgs&) = nullptr;
};

/// What registry.cc knows of a codec before it picks kernels.
struct CodecIdentity {
  std::string specification;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  CodecTraits traits;
};

/// `Parameters` also has a free function encoded_bytes(const Parameters&, std::size_t count).
template <typename Parameters>
class KernelCodec final : public Codec {
 public:
  KernelCodec(CodecIdentity identity, const Parameters& parameters,
              const KernelTable<Parameters>& kernels)
      : identity_(std::move(identity)), parameters_(parameters), kernels_(kernels) {}

  const CodecTraits& traits() const override { return identity_.traits; }
  const std::string& specification() const override { return identity_.specification; }
  DType dtype() const override { return identity_.dtype; }
  ReduceOp op() const override { return identity_.op; }

  std::size_t wire_bytes(std::size_t count, Contributions) const override {
    return encoded_bytes(parameters_, count);
  }
  std::size_t encode(const EncodeArgs& args) const override {
    if (args.count > 0) kernels_.encode(parameters_, args);
    return encoded_bytes(parameters_, args.count);
  }
  void decode(const DecodeArgs& args) const override {
    if (args.count > 0) kernels_.decode(parameters_, args);
  }
  void decode_add(const DecodeAddArgs& args) const override {
    if (args.count > 0) kernels_.decode_add(parameters_, args);
  }
  std::size_t decode_add_encode(const DecodeAddEncodeArgs& args) const override {
    if (args.count > 0) kernels_.decode_add_encode(parameters_, args);
    return args.wire == nullptr ? 0 : encoded_bytes(parameters_, args.count);
  }

 private:
  CodecIdentity identity_;
  Parameters parameters_;
  KernelTable<Parameters> kernels_;
};

}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_KERNEL_CODEC_H_
