// All-reduces of a projection, as ring/collective/projected.cc makes them: the same sums, so the
// same results. Steps:
//
//   1. tags     each rank offers what it keeps of the tensor; an all-reduce of two numbers tells
//               the device whether all ranks have the same
//   2. rounds   project; sum over the ranks, by the real NCCL's own all-reduce of float32, or by
//               sra or the ring with the codec of the sums
//   3. finish   result, residual and state, from the sums
//
// Every step needs the one before, so nothing is gained by a stream of our own: all but the codec
// of the sums works in the caller's. The real all-reduce gives all ranks the same bytes, as this
// does.
//
// Memory: the two tags, then for each round own values, sums, and what the codec of the sums drops;
// then what the device wants for itself. The call after this one waits for its end.
#include <algorithm>

#include "nccl_plugin/interposer/calls/stream_call.h"
#include "ringpress/internal/hash.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

constexpr std::size_t kTags = 2;

std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

const Projection& sizes_of(const DeviceProjection& projection) {
  return *projection.codec().projection();
}

/// What each rank sends of so many bytes that are all-reduced.
std::uint64_t share_sent(std::uint64_t bytes, std::size_t world) {
  return bytes * 2 * (world - 1) / world;
}

class ProjectionCall final : public StreamCall {
 public:
  ProjectionCall(const StreamCallParts& parts, const ProjectionParts& projection)
      : parts_(parts), projection_(*projection.projection), next_memory_(projection.memory) {
    args_.tags = reinterpret_cast<std::uint64_t*>(take(kTags * sizeof(std::uint64_t)));
    const int rounds = sizes_of(projection_).rounds();
    // Spans point into these.
    for (auto* pointers : {&own_, &summed_, &dropped_}) {
      pointers->reserve(static_cast<std::size_t>(rounds));
    }
    for (int round = 0; round < rounds; ++round) add_round(round, projection.goes_round_the_ring);
    args_.scratch = take_floats(projection_.scratch_count({parts.count, {}}));
    fill_call(projection.state);
  }

  std::size_t steps() const override { return finish_step() + 1; }
  bool exchanges(std::size_t step) const override;
  Status prepare(std::size_t step) override;
  ncclResult_t exchange(std::size_t step) override;
  Status conclude(std::size_t step) override;
  std::uint64_t sent_bytes() const override;
  std::uint64_t raw_bytes() const override {
    return share_sent(parts_.count * dtype_size(projection_.codec().dtype()), parts_.world);
  }

 private:
  struct Round {
    std::size_t count = 0;  // Floats.
    std::size_t first_step = 0;
    StreamCallPointer sum;  // Null: by the real library.

    std::size_t steps() const { return sum == nullptr ? 1 : sum->steps(); }
  };

  std::byte* take(std::size_t bytes) {
    std::byte* const memory = next_memory_;
    next_memory_ += aligned(bytes);
    return memory;
  }
  float* take_floats(std::size_t count) {
    return reinterpret_cast<float*>(take(count * sizeof(float)));
  }
  void add_round(int number, bool goes_round_the_ring);
  StreamCallPointer make_sum(std::size_t number, std::size_t count, bool goes_round_the_ring) const;
  void fill_call(std::uint64_t* state);

  std::size_t finish_step() const { return rounds_.back().first_step + rounds_.back().steps(); }
  const Round& round_of(std::size_t step) const {
    return *std::find_if(rounds_.rbegin(), rounds_.rend(),
                         [step](const Round& round) { return round.first_step <= step; });
  }
  Status begin_round(const Round& round);
  Status finish();
  ncclResult_t all_reduce(const void* own, void* sums, std::size_t count, ncclDataType_t dtype,
                          ncclRedOp_t op) const {
    return parts_.real->AllReduce(own, sums, count, dtype, op, parts_.comm,
                                  static_cast<cudaStream_t>(parts_.stream));
  }

  const StreamCallParts parts_;
  DeviceProjection& projection_;
  std::byte* next_memory_;
  DeviceProjectArgs args_;
  CallVector<float*> own_, summed_, dropped_;  // By round.
  CallVector<Round> rounds_;
};

void ProjectionCall::add_round(int number, bool goes_round_the_ring) {
  Round round;
  round.count = sizes_of(projection_).projected_count(number, {parts_.count, {}});
  round.first_step = rounds_.empty() ? 1 : finish_step();
  own_.push_back(take_floats(round.count));
  summed_.push_back(take_floats(round.count));
  const bool loses = parts_.codec != nullptr && !parts_.codec->codec().traits().lossless;
  dropped_.push_back(loses && parts_.residual != nullptr ? take_floats(round.count) : nullptr);
  if (parts_.codec != nullptr && round.count > 0) {
    round.sum = make_sum(static_cast<std::size_t>(number), round.count, goes_round_the_ring);
  }
  rounds_.push_back(std::move(round));
}

StreamCallPointer ProjectionCall::make_sum(std::size_t number, std::size_t count,
                                           bool goes_round_the_ring) const {
  StreamCallParts sum = parts_;
  sum.send = own_[number];
  sum.receive = summed_[number];
  sum.count = count;
  sum.residual = dropped_[number];
  sum.seed = combine_hash(parts_.seed, number);
  return goes_round_the_ring ? make_ring_call(sum) : make_sra_call(sum);
}

void ProjectionCall::fill_call(std::uint64_t* state) {
  ProjectArgs& call = args_.call;
  call.shape.count = parts_.count;
  call.values = parts_.send;
  call.residual = parts_.residual;
  call.seed = parts_.seed;
  call.step = parts_.sequence;
  call.turn = parts_.turn;
  call.own = own_;
  call.summed = summed_;
  call.dropped = dropped_;
  call.divisor = projection_.codec().op() == ReduceOp::kAvg ? parts_.world : 1;
  call.result = parts_.receive;
  if (state == nullptr) return;
  args_.state_call = state;
  call.state = reinterpret_cast<float*>(state + 1);
}

bool ProjectionCall::exchanges(std::size_t step) const {
  if (step == 0) return true;
  if (step == finish_step()) return false;
  const Round& round = round_of(step);
  return round.sum == nullptr ? round.count > 0 : round.sum->exchanges(step - round.first_step);
}

Status ProjectionCall::prepare(std::size_t step) {
  if (step == 0) {
    // Calls of one communicator run in the order in which they were made, whatever their streams.
    const Lane& lane = *parts_.lane;
    if (lane.was_used) {
      RINGPRESS_RETURN_IF_ERROR(parts_.device->wait(parts_.stream, lane.events().done));
    }
    return projection_.offer_state(parts_.stream, args_);
  }
  if (step == finish_step()) return finish();
  const Round& round = round_of(step);
  if (step == round.first_step) RINGPRESS_RETURN_IF_ERROR(begin_round(round));
  return round.sum == nullptr ? Status::ok() : round.sum->prepare(step - round.first_step);
}

Status ProjectionCall::begin_round(const Round& round) {
  const auto number = static_cast<std::size_t>(&round - rounds_.data());
  RINGPRESS_RETURN_IF_ERROR(projection_.project(parts_.stream, static_cast<int>(number), args_));
  if (dropped_[number] == nullptr) return Status::ok();
  return parts_.device->zero(parts_.stream, dropped_[number], round.count * sizeof(float));
}

Status ProjectionCall::finish() {
  RINGPRESS_RETURN_IF_ERROR(projection_.finish(parts_.stream, args_));
  Lane& lane = *parts_.lane;
  lane.was_used = true;
  return parts_.device->record(lane.events().done, parts_.stream);
}

ncclResult_t ProjectionCall::exchange(std::size_t step) {
  if (step == 0) return all_reduce(args_.tags, args_.tags, kTags, ncclUint64, ncclMin);
  const Round& round = round_of(step);
  if (round.sum != nullptr) return round.sum->exchange(step - round.first_step);
  const auto number = static_cast<std::size_t>(&round - rounds_.data());
  return all_reduce(own_[number], summed_[number], round.count, ncclFloat32, ncclSum);
}

Status ProjectionCall::conclude(std::size_t step) {
  if (step == 0 || step == finish_step()) return Status::ok();
  const Round& round = round_of(step);
  return round.sum == nullptr ? Status::ok() : round.sum->conclude(step - round.first_step);
}

std::uint64_t ProjectionCall::sent_bytes() const {
  std::uint64_t bytes = share_sent(kTags * sizeof(std::uint64_t), parts_.world);
  for (const Round& round : rounds_) {
    bytes += round.sum != nullptr ? round.sum->sent_bytes()
                                  : share_sent(round.count * sizeof(float), parts_.world);
  }
  return bytes;
}

}  // namespace

StreamCallPointer make_projection_call(const StreamCallParts& parts,
                                       const ProjectionParts& projection) {
  return make_stream_call<ProjectionCall>(parts, projection);
}

std::size_t projection_bytes(const DeviceProjection& projection, std::size_t count) {
  const Projection& sizes = sizes_of(projection);
  std::size_t bytes = aligned(kTags * sizeof(std::uint64_t)) +
                      aligned(projection.scratch_count({count, {}}) * sizeof(float));
  for (int round = 0; round < sizes.rounds(); ++round) {
    constexpr std::size_t kArrays = 3;
    bytes += kArrays * aligned(sizes.projected_count(round, {count, {}}) * sizeof(float));
  }
  return bytes;
}

std::size_t projection_state_floats(const DeviceProjection& projection, std::size_t count) {
  return sizeof(std::uint64_t) / sizeof(float) + sizes_of(projection).state_count({count, {}});
}

}  // namespace ringpress::nccl_plugin::interposer
