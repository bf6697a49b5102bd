// How fast codecs are on this machine.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "compress_kernels/factory.h"
#include "compress_kernels/speed/projection_speed.h"
#include "compress_kernels/speed/timing.h"

namespace ringpress::compress_kernels {
namespace {

using speed::kDifferent;
using speed::kLarge;
using speed::kWhole;

// Of so many ranks sums are made to see how long they are, where that depends on the values.
constexpr std::size_t kMostParts = 64;
// So many of a large number of forms are looked at.
constexpr std::size_t kMostLooks = 512;
// By so many values what a rank has is shifted from what the one before it has.
constexpr std::size_t kShift = 1021;

/// Memory for summaries, which are of 8-byte words.
std::size_t words_for(std::size_t bytes) {
  return (bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
}

/// A codec with all that its operations want. What ranks agree on is what one rank says: it is as
/// large, and takes as long to make, as what all of them say.
class Bench {
 public:
  Bench(std::unique_ptr<Codec> codec, std::size_t count, const MeasuredFor& use, bool with_feedback,
        ErrorOf values)
      : codec_(std::move(codec)),
        agreement_(codec_->agreement()),
        most_(count),
        world_(static_cast<std::size_t>(use.world)),
        hosts_(static_cast<std::size_t>(std::max(1, use.hosts))),
        element_bytes_(dtype_size(codec_->dtype())),
        values_(speed::make_elements(values, codec_->dtype(), count)),
        decoded_(values_.size()),
        wire_(codec_->wire_bytes(count, part())),
        sum_(codec_->wire_bytes(count, sum())),
        tensor_summary_(words_for(agreement_ == nullptr ? 0 : agreement_->tensor_bytes())),
        chunk_summaries_(words_for(agreement_ == nullptr ? 0 : agreement_->chunk_bytes(count))),
        residual_(with_feedback ? count : 0) {}

  double measure_error() {
    encode_all(kDifferent, nullptr);
    decode(kDifferent);
    return speed::relative_error(codec_->dtype(), values_.data(), decoded_.data(), kDifferent);
  }

  CodecSpeed measure() {
    CodecSpeed speed;
    speed.codec = codec_->specification();
    speed.error = measure_error();
    speed.sums_exactly = codec_->traits().summable;
    if (!tensor_summary_.empty()) {
      speed.look = cost([&](std::size_t count) { summarise_tensor(count, residual()); });
    }
    if (agreement_ != nullptr) speed.agreement = measure_agreement();
    encode_all(most_, nullptr);
    set_ratios(&speed);
    speed.encode = cost([&](std::size_t count) { encode(count, residual()); });
    encode_all(most_, nullptr);
    speed.decode = cost([&](std::size_t count) { decode(count); });
    std::fill(residual_.begin(), residual_.end(), 0.0f);  // As when the summaries were made.
    speed.hop = cost([&](std::size_t count) { hop(count); });
    if (codec_->traits().identity) {
      // It is sent from the caller's memory, and received there.
      speed.encode = speed.decode = {};
    }
    return speed;
  }

 private:
  Contributions part() const { return {1, world_}; }
  Contributions sum() const { return {world_, world_}; }

  AgreementCost measure_agreement() {
    AgreementCost found;
    if (agreement_->tensor_is_shared()) found.tensor_bytes = agreement_->tensor_bytes();
    found.rounds = agreement_->rounds();
    if (found.rounds == 0) return found;
    std::size_t bytes = 0;
    for (int round = 0; round < found.rounds; ++round) {
      bytes += agreement_->round_bytes(round, most_);
    }
    found.ratio = share_of(most_, bytes);
    found.summarise = cost([&](std::size_t count) { summarise_chunk(count, residual()); });
    return found;
  }

  double share_of(std::size_t count, std::size_t bytes) const {
    return static_cast<double>(bytes) / static_cast<double>(count * element_bytes_);
  }
  /// What is in `wire_` is one rank's part.
  void set_ratios(CodecSpeed* speed) {
    speed->ratio = share_of(most_, wire_size_);
    const CodecTraits& traits = codec_->traits();
    if (traits.lossless) return;
    const bool is_one_way = !speed->requantises();
    if (!traits.fixed_size) {
      speed->partial_sum_ratio = measure_ratio((is_one_way ? world_ : world_ / 2) / 2 + 1);
      speed->sum_ratio = measure_ratio(world_);
      speed->hosts_sum_ratio = measure_ratio(hosts_);
      return;
    }
    speed->partial_sum_ratio = is_one_way ? mean_ratio(world_ - 1) : two_way_ratio();
    speed->sum_ratio = ratio_of(sum());
    speed->hosts_sum_ratio = ratio_of({hosts_, hosts_});
    speed->alone_ratio = ratio_of({});
  }

  double ratio_of(Contributions form) const {
    return share_of(most_, codec_->wire_bytes(most_, form));
  }
  /// Of sums of 1 to `most` ranks, of which there may be too many to look at each.
  double mean_ratio(std::size_t most) const {
    const std::size_t stride = most / kMostLooks + 1;
    double sum = 0;
    std::size_t looks = 0;
    for (std::size_t summed = (stride + 1) / 2; summed <= most; summed += stride, ++looks) {
      sum += ratio_of({summed, world_});
    }
    return looks > 0 ? sum / static_cast<double>(looks) : 0;
  }
  /// Of a ring that goes two ways: half of the ranks send sums of 1, 2, .. to one side. To the
  /// other one, if these are one less, the last sum counts as one more (two_way_ring.cc).
  double two_way_ratio() const {
    const std::size_t longer = world_ / 2;
    const std::size_t shorter = world_ - 1 - longer;
    double sum = static_cast<double>(longer) * mean_ratio(longer);
    if (shorter == longer) {
      sum *= 2;
    } else if (shorter > 0) {
      sum +=
          static_cast<double>(shorter - 1) * mean_ratio(shorter - 1) + ratio_of({longer, world_});
    }
    return sum / static_cast<double>(world_ - 1);
  }

  /// Of the sum of so many ranks, whose values are independent.
  double measure_ratio(std::size_t summed) {
    const std::size_t parts = std::min(summed, kMostParts) - 1;
    std::vector<std::vector<std::byte>> encoded(parts);
    std::vector<const std::byte*> wires;
    std::vector<std::size_t> sizes;
    for (std::size_t rank = 0; rank < parts; ++rank) {
      shift_values();
      encode_all(kLarge, nullptr);
      encoded[rank].assign(wire_.begin(), wire_.begin() + static_cast<std::ptrdiff_t>(wire_size_));
      wires.push_back(encoded[rank].data());
      sizes.push_back(wire_size_);
    }
    shift_values();
    encode_all(kLarge, nullptr);
    if (parts == 0) return share_of(kLarge, wire_size_);
    DecodeAddEncodeArgs args = to_add(kLarge);
    args.wires = wires;
    args.wire_sizes = sizes;
    args.own_position = parts;
    return share_of(kLarge, codec_->decode_add_encode(args));
  }
  void shift_values() {
    const auto first = values_.begin();
    const auto end = first + static_cast<std::ptrdiff_t>(kLarge * element_bytes_);
    std::rotate(first, first + static_cast<std::ptrdiff_t>(kShift * element_bytes_), end);
  }

  void summarise_tensor(std::size_t count, float* residual) {
    if (tensor_summary_.empty()) return;
    SummariseArgs args = to_summarise(count, residual);
    args.summary = reinterpret_cast<std::byte*>(tensor_summary_.data());
    agreement_->summarise_tensor(args);
  }
  void summarise_chunk(std::size_t count, float* residual) {
    const int rounds = agreement_ == nullptr ? 0 : agreement_->rounds();
    for (int round = 0; round < rounds; ++round) {
      SummariseArgs args = to_summarise(count, residual);
      args.agreed = agreed();
      args.summary = reinterpret_cast<std::byte*>(chunk_summaries_.data()) +
                     agreement_->round_offset(round, count);
      agreement_->summarise(round, args);
    }
  }
  SummariseArgs to_summarise(std::size_t count, float* residual) const {
    SummariseArgs args;
    args.values = values_.data();
    args.count = count;
    args.residual = residual;
    return args;
  }
  Agreed agreed() const {
    const auto bytes = [](const std::vector<std::uint64_t>& words) {
      return words.empty() ? nullptr : reinterpret_cast<const std::byte*>(words.data());
    };
    return {bytes(tensor_summary_), bytes(chunk_summaries_)};
  }

  float* residual() { return residual_.empty() ? nullptr : residual_.data(); }

  /// With what ranks agree on first.
  void encode_all(std::size_t count, float* residual) {
    summarise_tensor(count, residual);
    summarised_ = 0;
    encode(count, residual);
  }
  /// Summaries of chunks are of exactly what is encoded, and made before.
  void encode(std::size_t count, float* residual) {
    if (summarised_ != count) summarise_chunk(count, residual);
    summarised_ = count;
    EncodeArgs args;
    args.values = values_.data();
    args.count = count;
    args.residual = residual;
    args.wire = wire_.data();
    args.form = part();
    args.agreed = agreed();
    wire_size_ = codec_->encode(args);
  }
  void decode(std::size_t count) {
    DecodeArgs args;
    args.wire = wire_.data();
    args.count = count;
    args.values = decoded_.data();
    args.wire_size = wire_size_;
    args.form = part();
    args.agreed = agreed();
    codec_->decode(args);
  }
  void hop(std::size_t count) {
    const std::byte* const wires[] = {wire_.data()};
    const std::size_t sizes[] = {wire_size_};
    DecodeAddEncodeArgs args = to_add(count);
    args.wires = wires;
    args.wire_sizes = sizes;
    args.own_position = 1;
    args.residual = residual();
    codec_->decode_add_encode(args);
  }
  DecodeAddEncodeArgs to_add(std::size_t count) {
    DecodeAddEncodeArgs args;
    args.values = values_.data();
    args.count = count;
    args.wire = sum_.data();
    args.decoded = decoded_.data();
    args.form = sum();
    args.agreed = agreed();
    return args;
  }

  template <typename Operation>
  OperationCost cost(Operation&& operation) const {
    return speed::cost_of(operation, element_bytes_, most_);
  }

  std::unique_ptr<Codec> codec_;
  const Agreement* agreement_;  // Null: there is none.
  std::size_t most_;            // Values that operations are measured on.
  std::size_t world_;
  std::size_t hosts_;
  std::size_t element_bytes_;
  std::vector<std::byte> values_;
  std::vector<std::byte> decoded_;
  std::vector<std::byte> wire_;
  std::vector<std::byte> sum_;
  std::vector<std::uint64_t> tensor_summary_;   // Of a codec that looks at a tensor as a whole
                                                // first,
  std::vector<std::uint64_t> chunk_summaries_;  // or at each chunk.
  std::vector<float> residual_;
  std::size_t summarised_ = 0;  // Values that chunk_summaries_ is of.
  std::size_t wire_size_ = 0;
};

/// Of `count` values, kDifferent at least; kLarge at least for measure().
Result<Bench> make_bench(const std::string& specification, DType dtype, std::size_t count,
                         const MeasuredFor& use, ErrorOf values) {
  RINGPRESS_ASSIGN_OR_RETURN(auto codec, make_codec(specification, dtype, ReduceOp::kSum));
  RINGPRESS_ASSIGN_OR_RETURN(const bool takes_feedback, takes_error_feedback(specification));
  const bool with_feedback = takes_feedback && !codec->traits().lossless;
  return Bench(std::move(codec), count, use, with_feedback, values);
}

}  // namespace

Result<CodecSpeed> measure_codec(const std::string& specification, DType dtype,
                                 const MeasuredFor& use) {
  if (use.world < 2) return Status(Code::kInvalidArgument, "one rank encodes nothing");
  if (projects(specification)) return speed::measure_projection(specification, dtype, use);
  const std::size_t count = use.where == ValuesIn::kCache ? kLarge : kWhole;
  RINGPRESS_ASSIGN_OR_RETURN(Bench bench,
                             make_bench(specification, dtype, count, use, ErrorOf::kNormalValues));
  return bench.measure();
}

Result<double> measure_codec_error(const std::string& specification, DType dtype, ErrorOf values) {
  if (projects(specification)) {
    return speed::measure_projection_error(specification, dtype, values);
  }
  RINGPRESS_ASSIGN_OR_RETURN(Bench bench, make_bench(specification, dtype, kDifferent, {}, values));
  return bench.measure_error();
}

}  // namespace ringpress::compress_kernels
