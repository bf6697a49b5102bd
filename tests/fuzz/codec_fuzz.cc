// Arbitrary specification strings into make_codec, arbitrary bytes into decode, decode_add and the
// hop: nothing reads or writes out of bounds, and every instruction set gives the same answer.
//
// RINGPRESS_FUZZ_CODEC: this specification, whatever the input says.
//
// Input: [type] [reduction] [length of text] [text] [count, 2 bytes] [kind of wire] [bytes of the
// wire, repeated as needed]
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
  std::size_t size() const { return size_; }
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
  std::vector<std::byte> written;  // What `hop` decodes to.
  std::vector<float> residual;
};

/// Agreements are bytes that came over the network too.
struct AgreedBytes {
  std::vector<std::byte> tensor;
  std::vector<std::byte> chunk;
};

/// What the wires are, and what a hop makes of two of them.
struct Forms {
  Contributions part;
  Contributions sum;
};

Forms choose_forms(const Codec& codec, std::uint8_t kind) {
  if (codec.agreement() != nullptr) {
    return kind % 2 == 1 ? Forms{{1, 3}, {3, 3}} : Forms{};
  }
  // Partial sums of a ring have forms of their own.
  constexpr Forms kForms[] = {{}, {{1, 64}, {3, 64}}, {{12, 64}, {25, 64}}, {{32, 64}, {64, 64}}};
  return kForms[kind / 4 % 4];
}

Outcome run(const Codec& codec, const std::vector<std::byte>& wire, std::size_t count,
            const Forms& forms, const AgreedBytes& agreed_bytes) {
  const auto& [part, sum] = forms;
  const Agreed agreed{agreed_bytes.tensor.empty() ? nullptr : agreed_bytes.tensor.data(),
                      agreed_bytes.chunk.empty() ? nullptr : agreed_bytes.chunk.data()};
  const std::size_t element_bytes = dtype_size(codec.dtype());
  const std::size_t sum_bytes = is_compressible(codec.dtype()) ? sizeof(float) : element_bytes;
  Outcome outcome;
  outcome.decoded.resize(count * element_bytes);
  DecodeArgs decode;
  decode.wire = wire.data();
  decode.wire_size = wire.size();
  decode.count = count;
  decode.values = outcome.decoded.data();
  decode.form = part;
  decode.agreed = agreed;
  codec.decode(decode);
  outcome.sum.assign(count * sum_bytes, std::byte{0x3D});
  DecodeAddArgs add;
  add.wire = wire.data();
  add.wire_size = wire.size();
  add.count = count;
  add.sum = outcome.sum.data();
  add.form = part;
  add.agreed = agreed;
  codec.decode_add(add);
  const std::byte* parts[] = {wire.data(), wire.data()};
  const std::size_t sizes[] = {wire.size(), wire.size()};
  outcome.hop.resize(codec.wire_bytes(count, sum));
  if (!codec.traits().lossless) outcome.residual.assign(count, 0.5f);
  DecodeAddEncodeArgs args;
  args.wires = parts;
  args.wire_sizes = sizes;
  args.own_position = 1;
  args.values = outcome.decoded.data();
  args.count = count;
  args.divisor = 3;
  args.wire = outcome.hop.data();
  args.residual = outcome.residual.empty() ? nullptr : outcome.residual.data();
  args.wire_contributions = part.summed;
  args.form = sum;
  args.agreed = agreed;
  outcome.hop.resize(codec.decode_add_encode(args));
  outcome.written.resize(count * element_bytes);
  decode.wire = outcome.hop.data();
  decode.wire_size = outcome.hop.size();
  decode.values = outcome.written.data();
  decode.form = sum;
  codec.decode(decode);
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
  if (!same(a.written, b.written, dtype)) fail("decode_add_encode", isa, codec);
  // Where elements travel as they are, which NaN a sum makes may differ.
  const std::string& name = codec.specification();
  const bool carries_nans = codec.traits().lossless || name == "fp16" || name == "bf16";
  if (!carries_nans && a.hop != b.hop) fail("decode_add_encode (wire)", isa, codec);
  if (a.residual != b.residual) fail("residual", isa, codec);
}

/// Bytes of the input, or, to get past the first look at them, an encoded form that some of them
/// change. Any length up to the limit where the codec has no fixed size.
std::vector<std::byte> make_wire(const Codec& codec, const Input& input, std::size_t count,
                                 std::uint8_t kind) {
  const Contributions form = choose_forms(codec, kind).part;
  std::size_t bytes = codec.wire_bytes(count, form);
  if (kind % 4 < 2) {
    if (!codec.traits().fixed_size) bytes = input.size() * 7919 % (bytes + 1);
    return input.rest(bytes);
  }
  const auto values = input.rest(count * dtype_size(codec.dtype()));
  // What the ranks have not agreed on is in a form that stands alone.
  const Contributions encoded = codec.agreement() != nullptr ? Contributions{} : form;
  std::vector<std::byte> wire(codec.wire_bytes(count, encoded));
  EncodeArgs args;
  args.values = values.data();
  args.count = count;
  args.form = encoded;
  args.wire = wire.data();
  wire.resize(codec.encode(args));
  const auto changes = input.rest(1 + kind / 32);
  for (std::size_t i = 0; i < changes.size() && !wire.empty(); ++i) {
    wire[(i * 641 + static_cast<std::size_t>(changes[i]) * 37) % wire.size()] ^= changes[i];
  }
  // Without a fixed size only: cut off at the end. The others keep their length.
  if (codec.traits().fixed_size) {
    wire.resize(bytes);
  } else if (kind % 8 >= 6) {
    wire.resize(wire.size() - std::min<std::size_t>(wire.size(), kind / 8));
  }
  return wire;
}

void run_input(Input input) {
  const auto dtype = static_cast<DType>(input.next() % kDTypeCount);
  const auto op = static_cast<ReduceOp>(input.next() % kReduceOpCount);
  std::string specification = input.text(input.next() % 64);
  if (const char* only = std::getenv("RINGPRESS_FUZZ_CODEC")) specification = only;
  const std::size_t count = (input.next() + 256u * input.next()) % 4096u;
  const std::uint8_t kind = input.next();
  if (!make_codec(specification, dtype, op).is_ok()) return;
  std::unique_ptr<Outcome> reference;
  std::vector<std::byte> wire;
  AgreedBytes agreed;
  for (const std::string& isa : available_isas()) {
    if (!force_isa(isa).is_ok()) std::abort();
    const auto codec = make_codec(specification, dtype, op);
    if (reference == nullptr) {
      const Agreement* agreement = codec.value()->agreement();
      if (agreement != nullptr && kind % 2 == 1) {
        agreed.tensor = input.rest(agreement->tensor_bytes());
        agreed.chunk = input.rest(agreement->chunk_bytes(count));
      }
      wire = make_wire(*codec.value(), input, count, kind);
    }
    const Forms forms = choose_forms(*codec.value(), kind);
    Outcome outcome = run(*codec.value(), wire, count, forms, agreed);
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
