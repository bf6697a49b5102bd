#include "nccl_plugin/plugin/collnet_policy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/session/calls/codec_cache.h"
#include "nccl_plugin/session/calls/comm_shape.h"
#include "nccl_plugin/session/calls/named_codec.h"
#include "nccl_plugin/session/rules/rule_codecs.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

constexpr std::size_t kKiB = 1024;
// Channels whose chunks NCCL joins to one call.
constexpr int kChannelsOfOneCall = 8;
// A message may be padded by an eighth of its size: a call is sent full.
constexpr std::size_t kPaddingShare = 8;
// Calls of one message that overlap: one is staged, one is under way, one is delivered, one waits.
constexpr std::size_t kCallsToOverlap = 4;
constexpr std::size_t kLargestChunk = 4096 * kKiB;
constexpr std::size_t kLargestCall = kLargestChunk * 1024 * 1024;

/// 0 for what is none, and for what NCCL reads as an octal number.
int decimal(const char* text) {
  int number = 0;
  if (text == nullptr || *text == '0') return 0;
  const char* end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, number);
  return parsed.ec == std::errc() && parsed.ptr == end ? std::max(number, 0) : 0;
}

std::size_t padding(std::size_t bytes, std::size_t call) {
  const std::size_t rest = bytes % call;
  return rest == 0 ? 0 : call - rest;
}

/// NCCL counts ranks in an int, and each node has at least one.
bool is_possible(const JobShape& shape) {
  constexpr std::size_t kMostRanks = std::numeric_limits<int>::max();
  return shape.nodes >= 1 && shape.nodes <= shape.ranks && shape.ranks <= kMostRanks;
}

/// What codecs do with calls of a type that NCCL does not tell: the widest that CollNet is given.
class PieceCodecs final : public CallAdvisers {
 public:
  explicit PieceCodecs(const CallSettings& settings) {
    std::vector<std::string> names = rule_codecs(settings);
    names.push_back(usual_codec(settings));
    for (const std::string& name : names) {
      // What is no codec is never decided on.
      static_cast<void>(codecs_.find_or_make(name, kWidest, ReduceOp::kSum, make_named_codec));
    }
  }
  Result<CodecLimits> limits_of(const PlanRequest& request, const Decision& decision) override {
    const NamedCodec* const codec = codecs_.find(decision.codec, kWidest, ReduceOp::kSum);
    if (codec == nullptr) return CodecLimits();
    PlanRequest widest = request;
    widest.dtype = kWidest;
    widest.count = request.count * dtype_size(request.dtype) / dtype_size(kWidest);
    return nccl_plugin::limits_of(*codec, widest);
  }

 private:
  static constexpr DType kWidest = DType::kFloat32;
  CodecCache<NamedCodec> codecs_;
};

}  // namespace

std::size_t nccl_chunk_bytes(CollNetRoute route, std::size_t bytes, std::size_t ranks_per_node,
                             int channels) {
  const bool chain = route == CollNetRoute::kChain;
  const std::size_t heads = chain ? 1 : ranks_per_node;
  const std::size_t depth = chain ? ranks_per_node : (ranks_per_node == 1 ? 1 : 2);
  const std::size_t lanes = static_cast<std::size_t>(channels) * heads;
  std::size_t chunk = (chain ? 256 : 512) * kKiB;
  const auto halve = [&](std::size_t calls, std::size_t floor) {
    while (chunk > floor && bytes / (lanes * chunk) < depth * calls) chunk /= 2;
  };
  halve(64, 128 * kKiB);
  halve(8, 64 * kKiB);
  halve(chain ? 1 : 8, 32 * kKiB);
  return chunk;
}

int least_channels(const ChannelVariables& variables) {
  const int by_ctas = std::min(decimal(variables.min_ctas), decimal(variables.max_ctas));
  return std::max(decimal(variables.min_nchannels), by_ctas);
}

CollNetPolicy::CollNetPolicy(CallSettings settings, JobShape shape)
    : settings_(std::move(settings)),
      shape_(shape),
      planner_(tuner::make_planner(settings_)),
      codecs_(std::make_unique<PieceCodecs>(settings_)) {}

std::size_t CollNetPolicy::ranks_per_node() const {
  return std::max<std::size_t>(shape_.ranks / std::max<std::size_t>(shape_.nodes, 1), 1);
}

Preference CollNetPolicy::preference(abi::Function function, std::size_t bytes) const {
  if (!compresses(settings_.mode)) return Preference::kLeave;
  if (!is_possible(shape_)) return Preference::kLeave;
  if (function != abi::Function::kAllReduce || shape_.nodes < 2) return Preference::kAvoid;
  return decide(bytes).is_exact() ? Preference::kAvoid : Preference::kCollNet;
}

/// On a tensor of which NCCL will tell everything but its type.
Decision CollNetPolicy::decide(std::size_t bytes) const {
  CommShape comm;
  comm.world = comm.comm_ranks = static_cast<int>(shape_.ranks);
  comm.crosses_hosts = true;
  comm.comm_nodes = static_cast<int>(shape_.nodes);
  // All types for CollNet are whole multiples of float16, and every operation is a sum.
  constexpr DType kUnit = DType::kFloat16;
  PlanRequest request =
      request_of(comm, CollectiveKind::kAllReduce, bytes / dtype_size(kUnit), kUnit);
  request.call_class = CallClass::kGradient;
  request.is_dtype_known = false;
  return decide_tensor(*planner_, request, PiecewiseTensor::Known::kTensor, *codecs_).value();
}

std::string CollNetPolicy::why_none() const {
  return to_text(decide(kLargestCall).why);
}

int CollNetPolicy::channels(CollNetRoute route, std::size_t bytes, int seen_channels) const {
  int best = 0;
  std::size_t best_padding = std::numeric_limits<std::size_t>::max();
  const int most = std::max(shape_.least_channels, seen_channels);
  for (int count = std::min(most, kChannelsOfOneCall); count >= 1; --count) {
    const std::size_t lanes = route == CollNetRoute::kDirect ? ranks_per_node() : 1;
    const std::size_t call = lanes * static_cast<std::size_t>(count) *
                             nccl_chunk_bytes(route, bytes, ranks_per_node(), count);
    const std::size_t padded = padding(bytes, call);
    if (padded <= bytes / kPaddingShare) return count;
    if (padded < best_padding) best = count, best_padding = padded;
  }
  return best;
}

std::size_t CollNetPolicy::chunk_bytes(CollNetRoute route, std::size_t bytes, int channels,
                                       std::size_t nccl_chunk) const {
  if (channels < 1) return nccl_chunk;
  const std::size_t heads = route == CollNetRoute::kDirect ? ranks_per_node() : 1;
  const std::size_t share = bytes / static_cast<std::size_t>(channels) / heads / kCallsToOverlap;
  return std::max(nccl_chunk, std::min(std::bit_floor(share), kLargestChunk));
}

Preference CollNetPolicy::preference_of_largest() const {
  return preference(abi::Function::kAllReduce, kLargestCall);
}

bool CollNetPolicy::wants_collnet() const {
  return preference_of_largest() == Preference::kCollNet;
}

std::string CollNetPolicy::description() const {
  const std::string where =
      std::to_string(shape_.ranks) + " ranks on " + std::to_string(shape_.nodes) + " nodes: ";
  if (!is_possible(shape_)) return where + "there is no such job, the choice is NCCL's";
  switch (preference_of_largest()) {
    case Preference::kLeave:
      return where + "RINGPRESS=" + to_text(settings_.mode) + ", the choice is NCCL's";
    case Preference::kCollNet:
      return where + "all-reduces of at least " + std::to_string(settings_.minimum_bytes) +
             " bytes go to CollNet";
    case Preference::kAvoid:
      return where + "nothing goes to CollNet" + (shape_.nodes < 2 ? "" : ": " + why_none());
  }
  return where;
}

}  // namespace ringpress::nccl_plugin::plugin
