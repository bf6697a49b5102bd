#include "nccl_plugin/gossip/options.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "nccl_plugin/gossip/compare_options.h"
#include "nccl_plugin/gossip/text.h"

namespace ringpress::nccl_plugin::gossip {
namespace {

/// Steps.
constexpr std::uint64_t kLongestWait = std::uint64_t{1} << 40;

enum class Trouble : std::uint64_t { kNone, kNotFinite, kOther };

/// Different each time.
std::uint64_t make_nonce() {
  static const std::uint64_t seed = std::random_device()();
  static std::atomic<std::uint64_t> made{0};
  return seed << 32 ^ made.fetch_add(1);
}

/// What ranks compare before the first step. All are of one version and byte order.
struct Fingerprint {
  std::uint64_t trouble = 0;  // A Trouble.
  std::uint64_t element = 0;  // Of the model, and its value, that is not finite.
  double value = 0;
  std::uint64_t nonce = 0;  // Of this rank and call alone.
  std::uint64_t count = 0;
  std::uint64_t dtype = 0;
  double theta = 0;
  std::uint64_t t_min = 0;
  std::uint64_t t_max = 0;
  std::uint64_t period = 0;
  std::uint64_t seed = 0;
  std::array<char, 64> codec{};  // The end of a longer one is in codec_hash.
  std::uint64_t codec_hash = 0;
};

Fingerprint make_fingerprint(const GossipOptions& options, const OwnPart& own) {
  Fingerprint made;
  Trouble trouble = own.status.is_ok() ? Trouble::kNone : Trouble::kOther;
  if (own.is_not_finite) trouble = Trouble::kNotFinite;
  made.trouble = static_cast<std::uint64_t>(trouble);
  made.element = own.element;
  made.value = own.value;
  made.nonce = make_nonce();
  made.count = options.count;
  made.dtype = static_cast<std::uint64_t>(options.dtype);
  made.theta = options.rule.theta;
  made.t_min = options.rule.t_min;
  made.t_max = options.rule.t_max;
  made.period = options.rule.period;
  made.seed = options.seed;
  std::copy_n(options.codec.begin(), std::min(options.codec.size(), made.codec.size() - 1),
              made.codec.begin());
  made.codec_hash = XXH3_64bits(options.codec.data(), options.codec.size());
  return made;
}

/// Ok, or "theta: rank 0 has 0.03, rank 2 has 0.05".
Status compare_fingerprints(const Fingerprint& first, const Fingerprint& other, int rank) {
  const auto differ = [rank](const char* field, const std::string& a, const std::string& b) {
    return Status(Code::kMismatch, std::string(field) + ": rank 0 has " + a + ", rank " +
                                       std::to_string(rank) + " has " + b);
  };
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  if (first.count != other.count) return differ("count", number(first.count), number(other.count));
  if (first.dtype != other.dtype) {
    return differ("datatype", dtype_name(static_cast<DType>(first.dtype)),
                  dtype_name(static_cast<DType>(other.dtype)));
  }
  if (first.theta != other.theta) {
    return differ("theta", text_of(first.theta), text_of(other.theta));
  }
  if (first.t_min != other.t_min) return differ("t_min", number(first.t_min), number(other.t_min));
  if (first.t_max != other.t_max) return differ("t_max", number(first.t_max), number(other.t_max));
  if (first.period != other.period) {
    return differ("period", number(first.period), number(other.period));
  }
  if (first.seed != other.seed) return differ("seed", number(first.seed), number(other.seed));
  if (first.codec_hash != other.codec_hash) {
    return differ("codec", first.codec.data(), other.codec.data());
  }
  return Status::ok();
}

/// Of another rank.
Status check_trouble(const Fingerprint& other, int rank) {
  const std::string named = "rank " + std::to_string(rank);
  switch (static_cast<Trouble>(other.trouble)) {
    case Trouble::kNone:
      return Status::ok();
    case Trouble::kNotFinite:
      return {Code::kInvalidArgument, "the model of " + named + " has " + text_of(other.value) +
                                          " at element " + std::to_string(other.element)};
    case Trouble::kOther:
      return {Code::kMismatch, named + " cannot take part: it says why"};
  }
  return {Code::kMismatch, named + " is of another version"};
}

}  // namespace

Status check(const GossipOptions& options) {
  const TriggerRule& rule = options.rule;
  const auto refuse = [](const char* field, const std::string& found, const char* allowed) {
    return Status(Code::kInvalidArgument,
                  std::string(field) + " is " + found + ", but must be " + allowed);
  };
  if (options.count == 0) return refuse("count", "0", "1 or more");
  if (!is_compressible(options.dtype)) {
    return refuse("datatype", dtype_name(options.dtype), "float32, float16 or bfloat16");
  }
  if (!std::isfinite(rule.theta) || rule.theta < 0) {
    return refuse("theta", text_of(rule.theta), "a number from 0 on");
  }
  if (rule.t_min < 1 || rule.t_min > kLongestWait) {
    return refuse("t_min", std::to_string(rule.t_min), "1 to 2^40");
  }
  if (rule.t_max > kLongestWait || (rule.t_max != 0 && rule.t_max < rule.t_min)) {
    return refuse("t_max", std::to_string(rule.t_max), "0, or t_min to 2^40");
  }
  if (rule.period > kLongestWait) {
    return refuse("period", std::to_string(rule.period), "0 to 2^40");
  }
  const auto codec = compress_kernels::make_codec(options.codec, DType::kFloat32, ReduceOp::kSum);
  if (!codec.is_ok()) return {codec.status().code(), "codec: " + codec.status().message()};
  if (codec.value()->projection() != nullptr || codec.value()->agreement() != nullptr) {
    return refuse("codec", options.codec,
                  "one that encodes a tensor by itself, such as q8 or bf16");
  }
  return Status::ok();
}

Result<std::uint32_t> compare_options(Peers& peers, const GossipOptions& options,
                                      const OwnPart& own) {
  std::vector<Fingerprint> all(static_cast<std::size_t>(peers.size()));
  const Fingerprint mine = make_fingerprint(options, own);
  RINGPRESS_RETURN_IF_ERROR(
      peers.gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all))));
  RINGPRESS_RETURN_IF_ERROR(own.status);
  for (int rank = 0; rank < peers.size(); ++rank) {
    RINGPRESS_RETURN_IF_ERROR(check_trouble(all[static_cast<std::size_t>(rank)], rank));
  }
  for (int rank = 1; rank < peers.size(); ++rank) {
    RINGPRESS_RETURN_IF_ERROR(
        compare_fingerprints(all[0], all[static_cast<std::size_t>(rank)], rank));
  }
  return static_cast<std::uint32_t>(XXH3_64bits(&all[0].nonce, sizeof all[0].nonce));
}

}  // namespace ringpress::nccl_plugin::gossip
