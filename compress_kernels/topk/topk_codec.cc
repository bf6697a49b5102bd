#include "compress_kernels/topk/topk_codec.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/reduce.h"
#include "compress_kernels/topk/segment_reader.h"
#include "compress_kernels/topk/segment_writer.h"
#include "compress_kernels/topk/value_code.h"
#include "compress_kernels/topk/workspace.h"

namespace ringpress::compress_kernels::topk {
namespace {

/// Calls use(part) for each segment of a chunk.
template <typename Use>
void for_each_segment(std::size_t count, Use&& use) {
  for (std::size_t first = 0; first < count; first += kSegmentElements) {
    use(Part{first, std::min(kSegmentElements, count - first)});
  }
}

/// Zeros but for what put(index, value) is called with.
template <typename T>
class SparseOutput {
 public:
  SparseOutput(void* values, const Part& part)
      : values_(static_cast<std::byte*>(values) + part.first * sizeof(T)) {
    std::memset(values_, 0, part.count * sizeof(T));
  }
  void put(std::size_t index, float value) const {
    core::store_element<T>(values_, index, core::narrow<T>(limited<T>(value)));
  }

 private:
  std::byte* values_;
};

/// Writes what a segment decodes to.
void store_decoded(DType dtype, const Selection& selection, const Part& part, void* values) {
  core::visit_compressible(dtype, [&](auto tag) {
    const SparseOutput<typename decltype(tag)::type> output(values, part);
    for (std::size_t i = 0; i < selection.count; ++i) {
      output.put(selection.index[i], selection.decoded[i]);
    }
  });
}

/// What is left of the selected values of a segment. The residual of all others is there already.
void store_losses(const Selection& selection, float* residual) {
  for (std::size_t i = 0; i < selection.count; ++i) {
    const float value = selection.value[i];
    if (!core::is_finite(value)) continue;
    core::store_element<float>(residual, selection.index[i], value - selection.decoded[i]);
  }
}

/// Own values that go into a sum are no longer left.
void clear_residual(const Selection& own, float* residual) {
  for (std::size_t i = 0; i < own.count; ++i) {
    if (core::is_finite(own.value[i])) core::store_element<float>(residual, own.index[i], 0);
  }
}

/// Makes the sums of a segment its selection.
void take_sums(const Part& part, std::size_t divisor, Workspace& work) {
  Selection& sums = work.selection;
  sums.count = 0;
  work.sums.take(part.count, [&](std::size_t index, float sum) {
    const float value = divisor == 1 ? sum : core::divide(sum, divisor);
    if (value == 0) return;
    sums.index[sums.count] = static_cast<std::uint32_t>(index);
    sums.value[sums.count] = value;
    sums.decoded[sums.count] = value;  // Unless it is written, which rounds it.
    ++sums.count;
  });
}

/// What was lost of sums, as what it was before the division.
void add_losses(const Selection& sums, std::size_t divisor, float* residual) {
  for (std::size_t i = 0; i < sums.count; ++i) {
    const float lost = (sums.value[i] - sums.decoded[i]) * static_cast<float>(divisor);
    const float left = core::load_element<float>(residual, sums.index[i]) + lost;
    if (core::is_finite(left)) core::store_element<float>(residual, sums.index[i], left);
  }
}

/// Where the values after a part begin.
const void* after(const void* values, DType dtype, const Part& part) {
  return static_cast<const std::byte*>(values) + (part.first + part.count) * dtype_size(dtype);
}

}  // namespace

Source TopkCodec::source_of(const void* values, std::size_t count, const float* residual,
                            std::uint64_t first_element) const {
  return {values, parameters_.dtype, residual, count, first_element};
}

void TopkCodec::summarise_tensor(const SummariseArgs& args) const {
  const std::uint64_t threshold =
      threshold_of(source_of(args.values, args.count, args.residual, 0), {});
  std::memcpy(args.summary, &threshold, sizeof threshold);
}

std::uint64_t TopkCodec::threshold_of(const Source& source, const Agreed& agreed) const {
  if (agreed.tensor != nullptr) {
    return limit_threshold(core::load_element<std::uint64_t>(agreed.tensor, 0));
  }
  return kernels_.find_threshold(source, selected_count(parameters_.density, source.count));
}

std::size_t TopkCodec::encode(const EncodeArgs& args) const {
  const Source source =
      source_of(args.values, args.count, args.residual, args.random.first_element);
  return encode_source(source, threshold_of(source, args.agreed), core::output_of(args));
}

std::size_t TopkCodec::encode_source(const Source& source, std::uint64_t threshold,
                                     const core::EncodeOutput& output) const {
  Selection& selection = workspace().selection;
  std::byte* wire = output.wire;
  for_each_segment(source.count, [&](const Part& part) {
    kernels_.select(source, part, threshold, output.residual, &selection);
    wire += write_segment(kernels_, parameters_.value_bits, part.count, &selection, wire,
                          after(source.values, source.dtype, part));
    if (output.residual != nullptr) store_losses(selection, output.residual + part.first);
    if (output.decoded != nullptr) {
      store_decoded(parameters_.dtype, selection, part, output.decoded);
    }
  });
  return static_cast<std::size_t>(wire - output.wire);
}

void TopkCodec::decode(const DecodeArgs& args) const {
  SegmentReader reader(kernels_, parameters_.value_bits, args.wire, args.wire_size);
  float* values = workspace().values;
  core::visit_compressible(parameters_.dtype, [&](auto tag) {
    for_each_segment(args.count, [&](const Part& part) {
      const SparseOutput<typename decltype(tag)::type> output(args.values, part);
      reader.read(part.count, values,
                  [&](std::size_t index, float value) { output.put(index, value); });
    });
  });
}

void TopkCodec::decode_add(const DecodeAddArgs& args) const {
  SegmentReader reader(kernels_, parameters_.value_bits, args.wire, args.wire_size);
  float* values = workspace().values;
  for_each_segment(args.count, [&](const Part& part) {
    reader.read(part.count, values, [&](std::size_t index, float value) {
      const std::size_t at = part.first + index;
      core::store_element<float>(args.sum, at, core::load_element<float>(args.sum, at) + value);
    });
  });
}

std::size_t TopkCodec::decode_add_encode(const DecodeAddEncodeArgs& args) const {
  return args.agreed.tensor != nullptr ? sum_sent(args) : sum_all(args);
}

/// With a threshold: sums what was sent, and what of its own this rank would have sent.
std::size_t TopkCodec::sum_sent(const DecodeAddEncodeArgs& args) const {
  Workspace& work = workspace();
  const Source source =
      source_of(args.values, args.count, args.residual, args.random.first_element);
  const std::uint64_t threshold = threshold_of(source, args.agreed);
  std::vector<SegmentReader> readers;
  for (std::size_t k = 0; k < args.wires.size(); ++k) {
    readers.emplace_back(kernels_, parameters_.value_bits, args.wires[k], args.wire_sizes[k]);
  }
  std::byte* wire = args.wire;
  for_each_segment(args.count, [&](const Part& part) {
    const auto add = [&](std::size_t index, float value) { work.sums.add(index, value); };
    kernels_.select(source, part, threshold, args.residual, &work.selection);
    for (std::size_t k = 0; k <= readers.size(); ++k) {
      if (k == args.own_position) {
        for (std::size_t i = 0; i < work.selection.count; ++i) {
          add(work.selection.index[i], work.selection.value[i]);
        }
      }
      if (k < readers.size()) readers[k].read(part.count, work.values, add);
    }
    const std::size_t bytes = finish_sums(args, part, wire, work);
    if (wire != nullptr) wire += bytes;
  });
  return wire == nullptr ? 0 : static_cast<std::size_t>(wire - args.wire);
}

/// Encodes the sums of a segment, or stores them. work.selection holds own selected values until
/// then.
std::size_t TopkCodec::finish_sums(const DecodeAddEncodeArgs& args, const Part& part,
                                   std::byte* wire, Workspace& work) const {
  Selection& sums = work.selection;
  float* residual = args.residual == nullptr ? nullptr : args.residual + part.first;
  if (residual != nullptr) clear_residual(sums, residual);
  take_sums(part, args.divisor, work);
  std::size_t bytes = 0;
  if (wire != nullptr) {
    bytes = write_segment(kernels_, parameters_.value_bits, part.count, &sums, wire,
                          after(args.values, parameters_.dtype, part));
  }
  if (args.decoded != nullptr) store_decoded(parameters_.dtype, sums, part, args.decoded);
  if (residual != nullptr) add_losses(sums, args.divisor, residual);
  return bytes;
}

/// Without a threshold: the sum of everything, encoded as a chunk that stands alone.
std::size_t TopkCodec::sum_all(const DecodeAddEncodeArgs& args) const {
  std::vector<float> sums(args.count, -0.0f);
  for (std::size_t k = 0; k <= args.wires.size(); ++k) {
    if (k == args.own_position) {
      core::for_each_value(parameters_.dtype, args.values, args.count,
                           [&](std::size_t i, float value) { sums[i] += value; });
    }
    if (k < args.wires.size()) {
      decode_add({args.wires[k], args.count, sums.data(), args.wire_sizes[k]});
    }
  }
  for (float& sum : sums) sum = args.divisor == 1 ? sum : core::divide(sum, args.divisor);
  if (args.wire == nullptr) {
    core::store_values(parameters_.dtype, args.decoded, args.count,
                       [&](std::size_t i) { return sums[i]; });
    return 0;
  }
  Source source = source_of(sums.data(), args.count, args.residual, args.random.first_element);
  source.dtype = DType::kFloat32;
  return encode_source(source, threshold_of(source, {}), core::output_of(args));
}

}  // namespace ringpress::compress_kernels::topk
