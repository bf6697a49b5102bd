// How fast codecs are on this machine.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "compress_kernels/core/element.h"
#include "compress_kernels/factory.h"

namespace ringpress::compress_kernels {
namespace {

constexpr std::size_t kSmall = 1024;  // What an operation takes of so few is its start.
constexpr std::size_t kLarge = std::size_t{1} << 17;
constexpr std::size_t kDifferent = std::size_t{1} << 14;  // Then values repeat: they are dear.
constexpr int kRepetitions = 4;
constexpr Contributions kPart{1, 2};
constexpr Contributions kSum{2, 2};

std::vector<float> make_values(ErrorOf values) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0, 1e-3f);
  std::student_t_distribution<float> heavy(3);
  std::vector<float> made(kDifferent);
  for (float& value : made) {
    switch (values) {
      case ErrorOf::kNormalValues:
        value = normal(generator);
        break;
      case ErrorOf::kHeavyTails:
        value = 1e-3f * heavy(generator);
        break;
    }
  }
  return made;
}

/// A codec with all that its operations want.
class Bench {
 public:
  Bench(std::unique_ptr<Codec> codec, std::size_t count, bool with_feedback, ErrorOf values)
      : codec_(std::move(codec)),
        element_bytes_(dtype_size(codec_->dtype())),
        values_(count * element_bytes_),
        decoded_(values_.size()),
        wire_(codec_->wire_bytes(count, kPart)),
        sum_(codec_->wire_bytes(count, kSum)),
        summary_(summary_words(*codec_)),
        residual_(with_feedback ? count : 0) {
    const std::vector<float> different = make_values(values);
    core::visit_compressible(codec_->dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (std::size_t i = 0; i < count; ++i) {
        core::store_wide<T>(values_.data(), i, different[i % kDifferent]);
        if (i < kDifferent) original_.push_back(core::load_wide<T>(values_.data(), i));
      }
    });
  }

  double measure_error() {
    summarise(kDifferent, nullptr);
    encode(kDifferent, nullptr);
    return error();
  }

  CodecSpeed measure() {
    CodecSpeed speed;
    speed.codec = codec_->specification();
    speed.error = measure_error();
    if (!summary_.empty()) {
      speed.look = cost([&](std::size_t count) { summarise(count, residual()); });
    }
    summarise(kLarge, nullptr);
    encode(kLarge, nullptr);
    speed.ratio = static_cast<double>(wire_size_) / static_cast<double>(values_.size());
    speed.encode = cost([&](std::size_t count) { encode(count, residual()); });
    encode(kLarge, nullptr);
    speed.decode = cost([&](std::size_t count) { decode(count); });
    std::fill(residual_.begin(), residual_.end(), 0.0f);  // As when the summary was made.
    speed.hop = cost([&](std::size_t count) { hop(count); });
    if (codec_->traits().identity) {
      // It is sent from the caller's memory, and received there.
      speed.encode = speed.decode = {};
    }
    return speed;
  }

 private:
  static std::size_t summary_words(const Codec& codec) {
    const Agreement* const agreement = codec.agreement();
    const std::size_t bytes = agreement == nullptr ? 0 : agreement->tensor_bytes();
    return (bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
  }
  /// For what is encoded next.
  void summarise(std::size_t count, float* residual) {
    if (summary_.empty()) return;
    SummariseArgs args;
    args.values = values_.data();
    args.count = count;
    args.residual = residual;
    args.summary = reinterpret_cast<std::byte*>(summary_.data());
    codec_->agreement()->summarise_tensor(args);
  }
  Agreed agreed() const {
    if (summary_.empty()) return {};
    return {reinterpret_cast<const std::byte*>(summary_.data()), nullptr};
  }

  float* residual() { return residual_.empty() ? nullptr : residual_.data(); }

  std::size_t encode(std::size_t count, float* residual) {
    EncodeArgs args;
    args.values = values_.data();
    args.count = count;
    args.residual = residual;
    args.wire = wire_.data();
    args.form = kPart;
    args.agreed = agreed();
    return wire_size_ = codec_->encode(args);
  }
  void decode(std::size_t count) {
    DecodeArgs args;
    args.wire = wire_.data();
    args.count = count;
    args.values = decoded_.data();
    args.wire_size = wire_size_;
    args.form = kPart;
    args.agreed = agreed();
    codec_->decode(args);
  }
  void hop(std::size_t count) {
    const std::byte* const wires[] = {wire_.data()};
    const std::size_t sizes[] = {wire_size_};
    DecodeAddEncodeArgs args;
    args.wires = wires;
    args.wire_sizes = sizes;
    args.own_position = 1;
    args.values = values_.data();
    args.count = count;
    args.residual = residual();
    args.wire = sum_.data();
    args.decoded = decoded_.data();
    args.form = kSum;
    args.agreed = agreed();
    codec_->decode_add_encode(args);
  }

  /// Relative, of what is in the wire bytes.
  double error() {
    decode(kDifferent);
    double lost = 0;
    double whole = 0;
    core::visit_compressible(codec_->dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (std::size_t i = 0; i < kDifferent; ++i) {
        const double value = static_cast<double>(original_[i]);
        const double rest = value - static_cast<double>(core::load_wide<T>(decoded_.data(), i));
        lost += rest * rest;
        whole += value * value;
      }
    });
    return std::sqrt(lost / whole);
  }

  template <typename Operation>
  OperationCost cost(Operation&& operation) {
    const double few = quickest(operation, kSmall);
    const double many = quickest(operation, kLarge);
    OperationCost cost;
    cost.seconds_per_byte = many / static_cast<double>(kLarge * element_bytes_);
    cost.start_seconds =
        std::max(0.0, few - cost.seconds_per_byte * static_cast<double>(kSmall * element_bytes_));
    return cost;
  }

  /// Of several, as other programs only ever make it slower.
  template <typename Operation>
  static double quickest(Operation& operation, std::size_t count) {
    using Clock = std::chrono::steady_clock;
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kRepetitions; ++i) {
      const Clock::time_point begin = Clock::now();
      operation(count);
      best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
    }
    return best;
  }

  std::unique_ptr<Codec> codec_;
  std::size_t element_bytes_;
  std::vector<float> original_;
  std::vector<std::byte> values_;
  std::vector<std::byte> decoded_;
  std::vector<std::byte> wire_;
  std::vector<std::byte> sum_;
  std::vector<std::uint64_t> summary_;  // Of a codec that looks at a tensor as a whole first.
  std::vector<float> residual_;
  std::size_t wire_size_ = 0;
};

/// Of `count` values, kDifferent at least. A codec that one rank alone can use.
Result<Bench> make_bench(const std::string& specification, DType dtype, std::size_t count,
                         ErrorOf values) {
  RINGPRESS_ASSIGN_OR_RETURN(auto codec, make_codec(specification, dtype, ReduceOp::kSum));
  const Agreement* const agreement = codec->agreement();
  const bool talks =
      agreement != nullptr && (agreement->tensor_is_shared() || agreement->rounds() > 0);
  if (talks || codec->projection() != nullptr) {
    return Status(Code::kUnsupported,
                  specification + " has no model yet: its ranks talk before they encode");
  }
  RINGPRESS_ASSIGN_OR_RETURN(const bool takes_feedback, takes_error_feedback(specification));
  const bool with_feedback = takes_feedback && !codec->traits().lossless;
  return Bench(std::move(codec), count, with_feedback, values);
}

}  // namespace

Result<CodecSpeed> measure_codec(const std::string& specification, DType dtype) {
  RINGPRESS_ASSIGN_OR_RETURN(Bench bench,
                             make_bench(specification, dtype, kLarge, ErrorOf::kNormalValues));
  return bench.measure();
}

Result<double> measure_codec_error(const std::string& specification, DType dtype, ErrorOf values) {
  RINGPRESS_ASSIGN_OR_RETURN(Bench bench, make_bench(specification, dtype, kDifferent, values));
  return bench.measure_error();
}

}  // namespace ringpress::compress_kernels
