// Arbitrary specification strings into make_codec, arbitrary bytes into decode, decode_add and the
// hop: nothing reads or writes out of bounds, and every instruction set gives the same answer.
//
// Input: [type] [length of text] [text] [count, 2 bytes] [bytes of the wire, repeated as needed]
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "tests/compress_kernels/codec_data.h"

namespace ringpress::compress_kernels {
namespace {

/// Takes bytes from the front of the input; zeros when it is used up.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  std::uint8_t next() { return position_ < size_ ? data_[position_++] : 0; }
  std::string text(std::size_t length) {
    std::string result;
    for (std::size_t i = 0; i < length; ++i) result.push_back(static_cast<char>(next()));
    return result;
  }
  std::vector<std::byte> rest(std::size_t length) const {
    std::vector<std::byte> result(length);
    const std::size_t left = size_ - position_;
    for (std::size_t i = 0; i < length && left > 0; ++i) {
      result[i] = static_cast<std::byte>(data_[position_ + i % left]);
    }
    return result;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t position_ = 0;
};

[[noreturn]] void fail(const char* what, const std::string& isa, const Codec& codec) {
  std::fprintf(stderr, "%s differs on %s: %s %s\n", what, isa.c_str(),
               codec.specification().c_str(), dtype_name(codec.dtype()));
  std::abort();
}

/// Everything that is made of one wire.
struct Outcome {
  std::vector<std::byte> decoded;
  std::vector<std::byte> sum;
  std::vector<std::byte> hop;
  std::vector<float> residual;
};

Outcome run(const Codec& codec, const std::vector<std::byte>& wire, std::size_t count) {
  const std::size_t element_bytes = dtype_size(codec.dtype());
  const std::size_t sum_bytes = is_compressible(codec.dtype()) ? sizeof(float) : element_bytes;
  Outcome outcome;
  outcome.decoded.resize(count * element_bytes);
  codec.decode({wire.data(), count, outcome.decoded.data()});
  outcome.sum.assign(count * sum_bytes, std::byte{0x3D});
  codec.decode_add({wire.data(), count, outcome.sum.data()});
  const std::byte* parts[] = {wire.data(), wire.data()};
  outcome.hop.resize(wire.size());
  if (!codec.traits().lossless) outcome.residual.assign(count, 0.5f);
  DecodeAddEncodeArgs args;
  args.wires = parts;
  args.own_position = 1;
  args.values = outcome.decoded.data();
  args.count = count;
  args.divisor = 3;
  args.wire = outcome.hop.data();
  args.residual = outcome.residual.empty() ? nullptr : outcome.residual.data();
  codec.decode_add_encode(args);
  return outcome;
}

/// Compares elements with NaNs taken as equal, as their payload is the processor's choice.
bool same(const std::vector<std::byte>& a, const std::vector<std::byte>& b, DType dtype) {
  const std::size_t count = a.size() / dtype_size(dtype);
  return testing::first_difference(a.data(), b.data(), count, dtype) == count;
}

void compare(const Codec& codec, const std::string& isa, const Outcome& a, const Outcome& b) {
  const DType dtype = codec.dtype();
  if (!same(a.decoded, b.decoded, dtype)) fail("decode", isa, codec);
  if (!same(a.sum, b.sum, is_compressible(dtype) ? DType::kFloat32 : dtype)) {
    fail("decode_add", isa, codec);
  }
  const std::string& name = codec.specification();
  DType wire_type = dtype;
  if (name == "fp16") wire_type = DType::kFloat16;
  if (name == "bf16") wire_type = DType::kBfloat16;
  const bool same_hop = name[0] == 'q' ? a.hop == b.hop : same(a.hop, b.hop, wire_type);
  if (!same_hop) fail("decode_add_encode", isa, codec);
  if (a.residual != b.residual) fail("residual", isa, codec);
}

void run_input(Input input) {
  const auto dtype = static_cast<DType>(input.next() % kDTypeCount);
  const auto op = static_cast<ReduceOp>(input.next() % kReduceOpCount);
  const std::string specification = input.text(input.next() % 64);
  const std::size_t count = (input.next() + 256u * input.next()) % 4096u;
  if (!make_codec(specification, dtype, op).is_ok()) return;
  std::unique_ptr<Outcome> reference;
  for (const std::string& isa : available_isas()) {
    if (!force_isa(isa).is_ok()) std::abort();
    const auto codec = make_codec(specification, dtype, op);
    const auto wire = input.rest(codec.value()->wire_bytes(count));
    Outcome outcome = run(*codec.value(), wire, count);
    if (reference == nullptr) {
      reference = std::make_unique<Outcome>(std::move(outcome));
    } else {
      compare(*codec.value(), isa, *reference, outcome);
    }
  }
}

}  // namespace
}  // namespace ringpress::compress_kernels

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ringpress::compress_kernels::run_input({data, size});
  return 0;
}
