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

/// What ranks agree on, as one of them says it: it is as large, and takes as long to make, as what
/// all of them say.
class Summaries {
 public:
  /// `agreement`: null without one. Of chunks of `most` values.
  Summaries(const Agreement* agreement, std::size_t most)
      : agreement_(agreement),
        tensor_(words_for(agreement == nullptr ? 0 : agreement->tensor_bytes())),
        chunk_(words_for(agreement == nullptr ? 0 : agreement->chunk_bytes(most))) {}

  /// What is said of a chunk counts no more.
  void summarise_tensor(SummariseArgs args) {
    chunk_count_ = 0;
    if (tensor_.empty()) return;
    args.summary = reinterpret_cast<std::byte*>(tensor_.data());
    agreement_->summarise_tensor(args);
  }
  void summarise_chunk(SummariseArgs args) {
    const int rounds = agreement_ == nullptr ? 0 : agreement_->rounds();
    for (int round = 0; round < rounds; ++round) {
      args.agreed = agreed();
      args.summary =
          reinterpret_cast<std::byte*>(chunk_.data()) + agreement_->round_offset(round, args.count);
      agreement_->summarise(round, args);
    }
    chunk_count_ = args.count;
  }
  /// Summaries of chunks are of exactly what is encoded, and made before.
  void ensure_chunk(const SummariseArgs& args) {
    if (chunk_count_ != args.count) summarise_chunk(args);
  }
  Agreed agreed() const {
    const auto bytes = [](const std::vector<std::uint64_t>& words) {
      return words.empty() ? nullptr : reinterpret_cast<const std::byte*>(words.data());
    };
    return {bytes(tensor_), bytes(chunk_)};
  }

 private:
  const Agreement* agreement_;
  std::vector<std::uint64_t> tensor_;  // Of a codec that looks at a tensor as a whole first.
  std::vector<std::uint64_t> chunk_;   // Of one that looks at each chunk.
  std::size_t chunk_count_ = 0;        // Values that chunk_ is of.
};

/// A codec with all that its operations want, as on one of `world` ranks.
class CodecRun {
 public:
  CodecRun(std::unique_ptr<Codec> codec, std::size_t count, std::size_t world, bool with_feedback,
           ErrorOf values)
      : codec_(std::move(codec)),
        part_{1, world},
        sum_{world, world},
        values_(speed::make_elements(values, codec_->dtype(), count)),
        decoded_(values_.size()),
        part_wire_(codec_->wire_bytes(count, part_)),
        sum_wire_(codec_->wire_bytes(count, sum_)),
        residual_(with_feedback ? count : 0),
        summaries_(codec_->agreement(), count) {}

  const Codec& codec() const { return *codec_; }

  void summarise_tensor(std::size_t count) {
    summaries_.summarise_tensor(to_summarise(count, residual()));
  }
  void summarise_chunk(std::size_t count) {
    summaries_.summarise_chunk(to_summarise(count, residual()));
  }
  void encode(std::size_t count) { encode_with(residual(), count); }
  /// As the first call, with what ranks agree on first. Gives the bytes.
  std::size_t encode_all(std::size_t count) {
    summaries_.summarise_tensor(to_summarise(count, nullptr));
    encode_with(nullptr, count);
    return wire_size_;
  }
  void decode(std::size_t count) {
    DecodeArgs args;
    args.wire = part_wire_.data();
    args.count = count;
    args.values = decoded_.data();
    args.wire_size = wire_size_;
    args.form = part_;
    args.agreed = summaries_.agreed();
    codec_->decode(args);
  }
  void hop(std::size_t count) {
    const std::byte* const wires[] = {part_wire_.data()};
    const std::size_t sizes[] = {wire_size_};
    DecodeAddEncodeArgs args = to_add(count);
    args.wires = wires;
    args.wire_sizes = sizes;
    args.own_position = 1;
    args.residual = residual();
    codec_->decode_add_encode(args);
  }
  /// As when the summaries were made.
  void clear_residual() { std::fill(residual_.begin(), residual_.end(), 0.0f); }

  double measure_error() {
    encode_all(kDifferent);
    decode(kDifferent);
    return speed::relative_error(codec_->dtype(), values_.data(), decoded_.data(), kDifferent);
  }
  /// Bytes of the sum of kLarge values of so many ranks, whose values are independent.
  std::size_t measure_sum(std::size_t summed) {
    const std::size_t parts = std::min(summed, kMostParts) - 1;
    std::vector<std::vector<std::byte>> encoded(parts);
    std::vector<const std::byte*> wires;
    std::vector<std::size_t> sizes;
    for (std::vector<std::byte>& wire : encoded) {
      shift_values();
      sizes.push_back(encode_all(kLarge));
      wire.assign(part_wire_.begin(),
                  part_wire_.begin() + static_cast<std::ptrdiff_t>(sizes.back()));
      wires.push_back(wire.data());
    }
    shift_values();
    const std::size_t own_size = encode_all(kLarge);
    if (parts == 0) return own_size;
    DecodeAddEncodeArgs args = to_add(kLarge);
    args.wires = wires;
    args.wire_sizes = sizes;
    args.own_position = parts;
    return codec_->decode_add_encode(args);
  }

 private:
  float* residual() { return residual_.empty() ? nullptr : residual_.data(); }
  SummariseArgs to_summarise(std::size_t count, float* residual) const {
    SummariseArgs args;
    args.values = values_.data();
    args.count = count;
    args.residual = residual;
    return args;
  }
  void encode_with(float* residual, std::size_t count) {
    summaries_.ensure_chunk(to_summarise(count, residual));
    EncodeArgs args;
    args.values = values_.data();
    args.count = count;
    args.residual = residual;
    args.wire = part_wire_.data();
    args.form = part_;
    args.agreed = summaries_.agreed();
    wire_size_ = codec_->encode(args);
  }
  DecodeAddEncodeArgs to_add(std::size_t count) {
    DecodeAddEncodeArgs args;
    args.values = values_.data();
    args.count = count;
    args.wire = sum_wire_.data();
    args.decoded = decoded_.data();
    args.form = sum_;
    args.agreed = summaries_.agreed();
    return args;
  }
  void shift_values() {
    const std::size_t element_bytes = dtype_size(codec_->dtype());
    const auto first = values_.begin();
    const auto end = first + static_cast<std::ptrdiff_t>(kLarge * element_bytes);
    std::rotate(first, first + static_cast<std::ptrdiff_t>(kShift * element_bytes), end);
  }

  std::unique_ptr<Codec> codec_;
  Contributions part_;
  Contributions sum_;
  std::vector<std::byte> values_;
  std::vector<std::byte> decoded_;
  std::vector<std::byte> part_wire_;
  std::vector<std::byte> sum_wire_;
  std::vector<float> residual_;
  std::size_t wire_size_ = 0;  // Of part_wire_.
  Summaries summaries_;
};

OperationCost cost_of(CodecRun& run, void (CodecRun::*operation)(std::size_t), std::size_t most) {
  return speed::cost_of([&](std::size_t count) { (run.*operation)(count); },
                        dtype_size(run.codec().dtype()), most);
}

/// Bytes of parts and sums over those of the values, of calls with `most` of these.
class WireRatios {
 public:
  WireRatios(CodecRun& run, std::size_t most, const MeasuredFor& use)
      : run_(run),
        most_(most),
        world_(static_cast<std::size_t>(use.world)),
        hosts_(static_cast<std::size_t>(std::max(1, use.hosts))) {}

  /// Leaves one rank's part encoded.
  void set(CodecSpeed* speed) {
    speed->ratio = share_of(most_, run_.encode_all(most_));
    const CodecTraits& traits = run_.codec().traits();
    if (traits.lossless) return;
    const bool is_one_way = !speed->requantises();
    if (!traits.fixed_size) {
      speed->partial_sum_ratio = measure_ratio((is_one_way ? world_ : world_ / 2) / 2 + 1);
      speed->sum_ratio = measure_ratio(world_);
      speed->hosts_sum_ratio = measure_ratio(hosts_);
      return;
    }
    speed->partial_sum_ratio = is_one_way ? mean_ratio(world_ - 1) : two_way_ratio();
    speed->sum_ratio = ratio_of({world_, world_});
    speed->hosts_sum_ratio = ratio_of({hosts_, hosts_});
    speed->alone_ratio = ratio_of({});
  }

  double share_of(std::size_t count, std::size_t bytes) const {
    return static_cast<double>(bytes) /
           static_cast<double>(count * dtype_size(run_.codec().dtype()));
  }

 private:
  double measure_ratio(std::size_t summed) { return share_of(kLarge, run_.measure_sum(summed)); }
  double ratio_of(Contributions form) const {
    return share_of(most_, run_.codec().wire_bytes(most_, form));
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

  CodecRun& run_;
  std::size_t most_;
  std::size_t world_;
  std::size_t hosts_;
};

/// Of `count` values, kDifferent at least; kLarge at least for measure().
Result<CodecRun> make_run(const std::string& specification, DType dtype, std::size_t count,
                          const MeasuredFor& use, ErrorOf values) {
  RINGPRESS_ASSIGN_OR_RETURN(auto codec, make_codec(specification, dtype, ReduceOp::kSum));
  RINGPRESS_ASSIGN_OR_RETURN(const bool takes_feedback, takes_error_feedback(specification));
  const bool with_feedback = takes_feedback && !codec->traits().lossless;
  return CodecRun(std::move(codec), count, static_cast<std::size_t>(use.world), with_feedback,
                  values);
}

AgreementCost measure_agreement(CodecRun& run, std::size_t most, const WireRatios& ratios) {
  const Agreement& agreement = *run.codec().agreement();
  AgreementCost found;
  if (agreement.tensor_is_shared()) found.tensor_bytes = agreement.tensor_bytes();
  found.rounds = agreement.rounds();
  if (found.rounds == 0) return found;
  std::size_t bytes = 0;
  for (int round = 0; round < found.rounds; ++round) bytes += agreement.round_bytes(round, most);
  found.ratio = ratios.share_of(most, bytes);
  found.summarise = cost_of(run, &CodecRun::summarise_chunk, most);
  return found;
}

CodecSpeed measure(CodecRun& run, std::size_t most, const MeasuredFor& use) {
  const Agreement* const agreement = run.codec().agreement();
  WireRatios ratios(run, most, use);
  CodecSpeed speed;
  speed.codec = run.codec().specification();
  speed.error = run.measure_error();
  speed.sums_exactly = run.codec().traits().summable;
  if (agreement != nullptr) {
    if (agreement->tensor_bytes() > 0) speed.look = cost_of(run, &CodecRun::summarise_tensor, most);
    speed.agreement = measure_agreement(run, most, ratios);
  }
  ratios.set(&speed);
  speed.encode = cost_of(run, &CodecRun::encode, most);
  run.encode_all(most);
  speed.decode = cost_of(run, &CodecRun::decode, most);
  run.clear_residual();
  speed.hop = cost_of(run, &CodecRun::hop, most);
  if (run.codec().traits().identity) {
    // It is sent from the caller's memory, and received there.
    speed.encode = speed.decode = {};
  }
  return speed;
}

}  // namespace

Result<CodecSpeed> measure_codec(const std::string& specification, DType dtype,
                                 const MeasuredFor& use) {
  if (use.world < 2) return Status(Code::kInvalidArgument, "one rank encodes nothing");
  if (projects(specification)) return speed::measure_projection(specification, dtype, use);
  const std::size_t count = use.where == ValuesIn::kCache ? kLarge : kWhole;
  RINGPRESS_ASSIGN_OR_RETURN(CodecRun run,
                             make_run(specification, dtype, count, use, ErrorOf::kNormalValues));
  return measure(run, count, use);
}

Result<double> measure_codec_error(const std::string& specification, DType dtype, ErrorOf values) {
  if (projects(specification)) {
    return speed::measure_projection_error(specification, dtype, values);
  }
  RINGPRESS_ASSIGN_OR_RETURN(CodecRun run, make_run(specification, dtype, kDifferent, {}, values));
  return run.measure_error();
}

}  // namespace ringpress::compress_kernels
