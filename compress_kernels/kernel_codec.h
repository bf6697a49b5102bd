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

class IdentifiedCodec : public Codec {
 public:
  explicit IdentifiedCodec(CodecIdentity identity) : identity_(std::move(identity)) {}

  const CodecTraits& traits() const final { return identity_.traits; }
  const std::string& specification() const final { return identity_.specification; }
  DType dtype() const final { return identity_.dtype; }
  ReduceOp op() const final { return identity_.op; }

 private:
  const CodecIdentity identity_;
};

/// Parameters that are the same in every form.
template <typename Parameters>
struct SameForms {
  static const Parameters& of(const Parameters& parameters, Contributions) { return parameters; }
  static const Parameters& of_hop(const Parameters& parameters, Contributions, Contributions) {
    return parameters;
  }
};

/// `Parameters` also has a free function encoded_bytes(const Parameters&, std::size_t count).
/// `Forms` says what the parameters of a form are, and of a hop to it from sums of another.
template <typename Parameters, typename Forms>
class KernelCodec final : public IdentifiedCodec {
 public:
  KernelCodec(CodecIdentity identity, const Parameters& parameters,
              const KernelTable<Parameters>& kernels)
      : IdentifiedCodec(std::move(identity)), parameters_(parameters), kernels_(kernels) {}

  std::size_t wire_bytes(std::size_t count, Contributions form) const override {
    return encoded_bytes(Forms::of(parameters_, form), count);
  }
  std::size_t encode(const EncodeArgs& args) const override {
    const Parameters& parameters = Forms::of(parameters_, args.form);
    if (args.count > 0) kernels_.encode(parameters, args);
    return encoded_bytes(parameters, args.count);
  }
  void decode(const DecodeArgs& args) const override {
    if (args.count > 0) kernels_.decode(Forms::of(parameters_, args.form), args);
  }
  void decode_add(const DecodeAddArgs& args) const override {
    if (args.count > 0) kernels_.decode_add(Forms::of(parameters_, args.form), args);
  }
  std::size_t decode_add_encode(const DecodeAddEncodeArgs& args) const override {
    const Contributions part{args.wire_contributions, args.form.world};
    const Parameters& parameters = Forms::of_hop(parameters_, args.form, part);
    if (args.count > 0) kernels_.decode_add_encode(parameters, args);
    return args.wire == nullptr ? 0 : encoded_bytes(parameters, args.count);
  }

 private:
  const Parameters parameters_;
  const KernelTable<Parameters> kernels_;
};

}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_KERNEL_CODEC_H_
