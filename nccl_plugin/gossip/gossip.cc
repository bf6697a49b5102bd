#include "nccl_plugin/gossip/gossip.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "compress_kernels/factory.h"
#include "ring/factory.h"

namespace ringpress::nccl_plugin::gossip {
namespace {

/// Elements that are exchanged at a time.
constexpr std::size_t kChunkElements = 256 * 1024;
/// In place of an element: there is no model.
constexpr std::uint64_t kNoModel = std::numeric_limits<std::uint64_t>::max();
/// Steps.
constexpr std::uint64_t kLongestWait = std::uint64_t{1} << 40;

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <typename T>
std::span<std::byte> bytes_of(T* value) {
  return std::as_writable_bytes(std::span(value, 1));
}

/// What ranks compare before the first step. All are of one version and byte order.
struct Fingerprint {
  std::uint64_t error = 0;  // 1: this rank's options are not allowed.
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

Fingerprint make_fingerprint(const GossipOptions& options, bool is_allowed) {
  Fingerprint made;
  made.error = is_allowed ? 0 : 1;
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

std::string text_of(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9g", value);
  return text.data();
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

Status compare_options(Peers& peers, const GossipOptions& options, const Status& own) {
  std::vector<Fingerprint> all(static_cast<std::size_t>(peers.size()));
  const Fingerprint mine = make_fingerprint(options, own.is_ok());
  RINGPRESS_RETURN_IF_ERROR(peers.gather(bytes_of(mine), std::as_writable_bytes(std::span(all))));
  RINGPRESS_RETURN_IF_ERROR(own);
  for (int rank = 0; rank < peers.size(); ++rank) {
    if (all[static_cast<std::size_t>(rank)].error == 0) continue;
    return {Code::kMismatch,
            "the configuration of rank " + std::to_string(rank) + " is not allowed: it says why"};
  }
  for (int rank = 1; rank < peers.size(); ++rank) {
    RINGPRESS_RETURN_IF_ERROR(
        compare_fingerprints(all[0], all[static_cast<std::size_t>(rank)], rank));
  }
  return Status::ok();
}

}  // namespace

/// What two workers that meet tell each other.
struct Gossip::Header {
  std::uint64_t step = 0;
  std::uint32_t asks = 0;
  std::uint32_t is_finite = 1;
  std::uint64_t bad_element = 0;  // The first one, if not.
  double bad_value = 0;
};

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

namespace {

/// Of an element of a model.
double value_at(const void* model, std::size_t element, DType dtype) {
  float value = 0;
  const float zero = 0;
  compress_kernels::take_difference(
      static_cast<const std::byte*>(model) + element * dtype_size(dtype), &zero, 1, dtype, &value);
  return static_cast<double>(value);
}

std::string say_not_finite(int rank, double value, std::uint64_t element) {
  if (element == kNoModel) return "rank " + std::to_string(rank) + " gave no model";
  return "the model of rank " + std::to_string(rank) + " has " + text_of(value) + " at element " +
         std::to_string(element);
}

std::size_t find_non_finite(const void* model, const GossipOptions& options) {
  return compress_kernels::measure_change(model, model, options.count, options.dtype)
      .first_non_finite;
}

Status check_finite(const void* model, const GossipOptions& options) {
  const std::size_t bad = find_non_finite(model, options);
  if (bad == options.count) return Status::ok();
  return {Code::kInvalidArgument, "the model has " + text_of(value_at(model, bad, options.dtype)) +
                                      " at element " + std::to_string(bad)};
}

bool are_finite(const std::vector<float>& values, std::size_t count) {
  return std::all_of(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count),
                     [](float value) { return std::isfinite(value); });
}

}  // namespace

Gossip::Gossip(const GossipOptions& options, std::unique_ptr<Codec> codec)
    : options_(options), codec_(std::move(codec)), trigger_(options.rule) {}

Result<std::unique_ptr<Gossip>> Gossip::make(Peers& peers, const Result<GossipOptions>& wanted,
                                             const void* model) {
  const GossipOptions options = wanted.is_ok() ? wanted.value() : GossipOptions();
  Status own = wanted.is_ok() ? check(options) : wanted.status();
  if (own.is_ok()) own = check_finite(model, options);
  RINGPRESS_RETURN_IF_ERROR(compare_options(peers, options, own));
  RINGPRESS_ASSIGN_OR_RETURN(
      std::unique_ptr<Codec> codec,
      compress_kernels::make_codec(options.codec, DType::kFloat32, ReduceOp::kSum));
  std::unique_ptr<Gossip> made(new Gossip(options, std::move(codec)));
  made->reference_.resize(options.count * dtype_size(options.dtype));
  made->keep_reference(model);
  RINGPRESS_RETURN_IF_ERROR(made->keep_base(peers, model));
  return made;
}

void Gossip::keep_reference(const void* model) {
  std::memcpy(reference_.data(), model, reference_.size());
}

/// Rank 0's model; and room for a chunk.
Status Gossip::keep_base(Peers& peers, const void* model) {
  const std::size_t chunk = std::min(options_.count, kChunkElements);
  if (codec_->traits().identity) {
    received_.resize(chunk * dtype_size(options_.dtype));
    return Status::ok();
  }
  own_.resize(chunk);
  theirs_.resize(chunk);
  sent_.resize(codec_->wire_bytes(chunk));
  received_.resize(sent_.size());
  base_.resize(options_.count);
  const std::vector<float> zeros(chunk);
  for (std::size_t first = 0; first < options_.count; first += chunk) {
    const std::size_t count = std::min(chunk, options_.count - first);
    const auto* values = static_cast<const std::byte*>(model) + first * dtype_size(options_.dtype);
    compress_kernels::take_difference(values, zeros.data(), count, options_.dtype, &base_[first]);
  }
  return peers.broadcast(std::as_writable_bytes(std::span(base_)));
}

Gossip::Header Gossip::measure(const void* model, StepReport* report) {
  Header header;
  header.step = totals_.steps;
  compress_kernels::Change change;
  if (model != nullptr) {
    change =
        compress_kernels::measure_change(model, reference_.data(), options_.count, options_.dtype);
  }
  if (change.first_non_finite < options_.count) {
    static_cast<void>(trigger_.asks(0));  // The step counts, whatever it asks.
    header.is_finite = 0;
    header.bad_element = model == nullptr ? kNoModel : change.first_non_finite;
    if (model != nullptr) header.bad_value = value_at(model, header.bad_element, options_.dtype);
    return header;
  }
  constexpr double kSmallest = 1e-24;  // Of a squared norm.
  report->change =
      std::sqrt(change.difference_squares / std::max(change.reference_squares, kSmallest));
  header.asks = trigger_.asks(report->change) ? 1 : 0;
  return header;
}

/// Both that meet find the same.
Status Gossip::compare(Peers& peers, int peer, const Header& own, const Header& theirs) const {
  if (own.step != theirs.step) {
    return {Code::kMismatch, "rank " + std::to_string(peer) + " is at step " +
                                 std::to_string(theirs.step) + ", rank " +
                                 std::to_string(peers.rank()) + " at " + std::to_string(own.step)};
  }
  for (const auto& [header, rank] : {std::pair(own, peers.rank()), std::pair(theirs, peer)}) {
    if (header.is_finite != 0) continue;
    return {Code::kInvalidArgument,
            say_not_finite(rank, header.bad_value, header.bad_element) + ": nothing is exchanged"};
  }
  return Status::ok();
}

Result<StepReport> Gossip::step(Peers& peers, void* model) {
  static_assert(sizeof(Header) == kHeaderBytes);
  StepReport report;
  const Header own = measure(model, &report);
  const std::uint64_t round = totals_.steps++;
  totals_.asked += own.asks;
  report.peer = ring::find_partner({options_.seed, round}, peers.size(), peers.rank());
  if (report.peer < 0) {
    RINGPRESS_RETURN_IF_ERROR(compare(peers, peers.rank(), own, own));
    return report;
  }
  Header theirs;
  RINGPRESS_RETURN_IF_ERROR(peers.exchange(report.peer, bytes_of(own), bytes_of(&theirs)));
  report.sent_bytes = sizeof own;
  RINGPRESS_RETURN_IF_ERROR(compare(peers, report.peer, own, theirs));
  if (own.asks != 0 || theirs.asks != 0) {
    RINGPRESS_RETURN_IF_ERROR(exchange(peers, report.peer, model, &report));
  }
  totals_.sent_bytes += report.sent_bytes;
  return report;
}

Status Gossip::exchange(Peers& peers, int peer, void* model, StepReport* report) {
  RINGPRESS_RETURN_IF_ERROR(codec_->traits().identity
                                ? exchange_values(peers, peer, model, report)
                                : exchange_differences(peers, peer, model, report));
  keep_reference(model);
  trigger_.note_exchange();
  report->has_exchanged = true;
  ++totals_.exchanges;
  return Status::ok();
}

Status Gossip::exchange_values(Peers& peers, int peer, void* model, StepReport* report) {
  const std::size_t size = dtype_size(options_.dtype);
  for (std::size_t first = 0; first < options_.count; first += kChunkElements) {
    const std::size_t count = std::min(kChunkElements, options_.count - first);
    std::byte* const values = static_cast<std::byte*>(model) + first * size;
    RINGPRESS_RETURN_IF_ERROR(
        peers.exchange(peer, {values, count * size}, {received_.data(), count * size}));
    compress_kernels::average_models(values, received_.data(), count, options_.dtype);
    report->sent_bytes += count * size;
  }
  return Status::ok();
}

Status Gossip::exchange_differences(Peers& peers, int peer, void* model, StepReport* report) {
  std::size_t lost = options_.count;  // Where the first chunk is that the codec cannot encode.
  for (std::size_t first = 0; first < options_.count; first += kChunkElements) {
    const std::size_t count = std::min(kChunkElements, options_.count - first);
    std::byte* const values = static_cast<std::byte*>(model) + first * dtype_size(options_.dtype);
    compress_kernels::take_difference(values, &base_[first], count, options_.dtype, own_.data());
    EncodeArgs encode;
    encode.values = own_.data();
    encode.count = count;
    encode.wire = sent_.data();
    encode.decoded = own_.data();
    encode.random = {options_.seed, totals_.steps, static_cast<std::uint32_t>(peers.rank()), first};
    const std::uint64_t bytes = codec_->encode(encode);
    std::uint64_t their_bytes = bytes;
    if (!codec_->traits().fixed_size) {
      RINGPRESS_RETURN_IF_ERROR(peers.exchange(peer, bytes_of(bytes), bytes_of(&their_bytes)));
      if (their_bytes > received_.size()) {
        return {Code::kMismatch, "rank " + std::to_string(peer) + " wants to send " +
                                     std::to_string(their_bytes) + " bytes of a chunk"};
      }
    }
    RINGPRESS_RETURN_IF_ERROR(
        peers.exchange(peer, {sent_.data(), bytes}, {received_.data(), their_bytes}));
    DecodeArgs decode;
    decode.wire = received_.data();
    decode.wire_size = their_bytes;
    decode.count = count;
    decode.values = theirs_.data();
    codec_->decode(decode);
    report->sent_bytes += bytes;
    // Both have both: they leave the same chunks as they were.
    if (are_finite(own_, count) && are_finite(theirs_, count)) {
      compress_kernels::add_half_difference(values, own_.data(), theirs_.data(), count,
                                            options_.dtype);
    } else if (lost == options_.count) {
      lost = first;
    }
  }
  if (lost == options_.count) return Status::ok();
  return {Code::kInvalidArgument, "what ranks " + std::to_string(peers.rank()) + " and " +
                                      std::to_string(peer) + " differ by from element " +
                                      std::to_string(lost) + " on is too much for " +
                                      options_.codec + ": such parts stay as they are"};
}

Status Gossip::flush(Peers& peers, void* model) {
  Header own;
  own.step = totals_.steps;
  const std::size_t bad = model == nullptr ? 0 : find_non_finite(model, options_);
  if (bad < options_.count) {
    own.is_finite = 0;
    own.bad_element = model == nullptr ? kNoModel : bad;
    if (model != nullptr) own.bad_value = value_at(model, bad, options_.dtype);
  }
  std::vector<Header> all(static_cast<std::size_t>(peers.size()));
  RINGPRESS_RETURN_IF_ERROR(peers.gather(bytes_of(own), std::as_writable_bytes(std::span(all))));
  for (int rank = 0; rank < peers.size(); ++rank) {
    RINGPRESS_RETURN_IF_ERROR(compare(peers, rank, own, all[static_cast<std::size_t>(rank)]));
  }
  RINGPRESS_RETURN_IF_ERROR(peers.average(model, options_.count, options_.dtype));
  keep_reference(model);
  trigger_.note_exchange();
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin::gossip
