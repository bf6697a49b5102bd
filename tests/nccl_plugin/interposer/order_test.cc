// The order that a compressed call asks its streams for (tests/support/noting_device.h).
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "nccl_plugin/interposer/calls/agreeing_stream_call.h"
#include "nccl_plugin/interposer/calls/stream_call.h"
#include "tests/support/noting_device.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

struct Shape {
  Algorithm algorithm;
  std::size_t world;
  std::size_t count;
  CollectiveKind kind;
  bool in_place;
  const char* codec = "q4";
  const char* projection = nullptr;  // Its sums have the other codec.
};

StreamCallPointer make_call(const Shape& shape, const StreamCallParts& parts,
                            const ProjectionParts& projection) {
  if (projection.projection != nullptr) return make_projection_call(parts, projection);
  if (shape.algorithm == Algorithm::kRing) return make_ring_call(parts);
  if (shape.algorithm == Algorithm::kSra) return make_sra_call(parts);
  HostParts host;
  host.rank = 1;
  host.size = kLocalSize;
  return make_hier_call(parts, host);
}

void run_call(const Shape& shape, const StreamCallParts& parts, const ProjectionParts& projection) {
  const auto call = make_call(shape, parts, projection);
  for (std::size_t step = 0; step < call->steps(); ++step) {
    EXPECT_TRUE(call->prepare(step).is_ok());
    if (!call->exchanges(step)) continue;
    notes->operation(parts.stream);
    EXPECT_EQ(call->exchange(step), ncclSuccess);
    EXPECT_TRUE(call->conclude(step).is_ok());
  }
}

/// Two calls one after the other, each in a stream of its own. Gives what races, and the number of
/// waits.
std::string run_calls(const Shape& shape, std::size_t forgotten_wait, std::size_t* waits) {
  Notes these_notes;
  notes = &these_notes;
  NotingDevice device(forgotten_wait);
  const auto codec = device.make_codec(shape.codec, DType::kFloat32, ReduceOp::kSum).value();
  const Agreement* const agreement = codec->codec().agreement();
  const auto rounds = static_cast<std::size_t>(agreement == nullptr ? 0 : agreement->rounds());
  LaneShape lane_shape = shape.algorithm == Algorithm::kRing ? ring_lane(shape.world, rounds)
                                                             : sra_lane(shape.world, rounds);
  lane_shape.chunk_elements = 1024;
  lane_shape.agreement_bytes = agreement_bytes(codec->codec(), 1024, shape.world);
  lane_shape.scratch_bytes = codec->scratch_bytes(shape.world, 1024);
  lane_shape.region_bytes = 2 * codec->codec().wire_bytes(1024);
  const auto lane = Lane::make(device, lane_shape).value();
  const std::size_t elements =
      shape.kind == CollectiveKind::kReduceScatter ? shape.count * shape.world : shape.count;
  std::vector<float> send(elements), receive(elements), residual(elements);
  const ringpressRealNccl real = noting_nccl();
  std::unique_ptr<DeviceProjection> projection;
  if (shape.projection != nullptr) {
    projection = device.make_projection(shape.projection, DType::kFloat32, ReduceOp::kSum).value();
  }
  std::vector<std::uint64_t> state(1000);
  std::vector<std::byte> memory(projection ? projection_bytes(*projection, shape.count) : 0);
  for (const bool second : {false, true}) {
    StreamCallParts parts;
    parts.real = &real;
    parts.rank = 1;
    parts.world = shape.world;
    parts.device = &device;
    parts.codec = codec.get();
    parts.lane = lane.get();
    parts.kind = shape.kind;
    parts.send = send.data();
    parts.receive = shape.in_place ? send.data() : receive.data();
    parts.count = shape.count;
    parts.stream = device.create_stream().value();
    parts.residual = shape.kind == CollectiveKind::kAllReduce ? residual.data() : nullptr;
    these_notes.operation(parts.stream);
    // The program has just filled the tensor, and reads the result afterwards; the second stream is
    // not ordered after the first by anything but the call itself.
    if (!second) these_notes.access(parts.stream, send.data(), elements * 4, true, "fill");
    run_call(shape, parts, {projection.get(), state.data(), memory.data(), false});
    these_notes.operation(parts.stream);
    if (second) these_notes.access(parts.stream, parts.receive, shape.count * 4, true, "use");
  }
  if (waits != nullptr) *waits = device.waits;
  return these_notes.race();
}

constexpr auto kAllReduce = CollectiveKind::kAllReduce;
constexpr auto kReduceScatter = CollectiveKind::kReduceScatter;
const Shape kShapes[] = {{Algorithm::kSra, 2, 10000, kAllReduce, true},
                         {Algorithm::kSra, 3, 20000, kAllReduce, false},
                         {Algorithm::kSra, 4, 1500, kAllReduce, true},
                         {Algorithm::kSra, 2, 500, kAllReduce, false},
                         {Algorithm::kSra, 3, 5000, kReduceScatter, false},
                         {Algorithm::kRing, 2, 10000, kAllReduce, true},
                         {Algorithm::kRing, 3, 20000, kAllReduce, false},
                         {Algorithm::kRing, 4, 40000, kAllReduce, true},
                         {Algorithm::kRing, 5, 1500, kAllReduce, false},
                         {Algorithm::kRing, 5, 7000, kReduceScatter, false},
                         {Algorithm::kHier, 2, 10001, kAllReduce, true},
                         {Algorithm::kHier, 3, 9000, kAllReduce, false},
                         {Algorithm::kSra, 2, 20000, kAllReduce, true, "qsgd"},
                         {Algorithm::kSra, 3, 12000, kAllReduce, false, "qsgd-ms"},
                         {Algorithm::kSra, 3, 9000, kReduceScatter, false, "qsgd-ms:norm=global"},
                         {Algorithm::kRing, 2, 8000, kAllReduce, true, "qsgd-ms"},
                         {Algorithm::kRing, 4, 40000, kAllReduce, false, "qsgd-ms:norm=global"},
                         {Algorithm::kRing, 5, 7000, kReduceScatter, false, "qsgd"},
                         {Algorithm::kHier, 3, 30000, kAllReduce, true, "qsgd:norm=global"},
                         {Algorithm::kSra, 3, 9000, kAllReduce, true, "q4", "randk:density=0.9"},
                         {Algorithm::kSra, 2, 9000, kAllReduce, false, "q4", "powersgd:rank=2"}};

TEST(InterposerOrder, NothingRaces) {
  for (const Shape& shape : kShapes) {
    EXPECT_EQ(run_calls(shape, 0, nullptr), "")
        << algorithm_name(shape.algorithm) << ' ' << shape.world << " ranks, " << shape.count << ' '
        << shape.codec;
  }
}

/// Every wait is needed for something: without it there is a race. But for the few at the end of a
/// pipeline whose work another wait covers.
TEST(InterposerOrder, AForgottenWaitIsNoticed) {
  for (const std::size_t number : {1, 6, 10, 13, 15, 19}) {
    const Shape& shape = kShapes[number];
    std::size_t waits = 0;
    ASSERT_EQ(run_calls(shape, 0, &waits), "");
    std::size_t noticed = 0;
    for (std::size_t wait = 1; wait <= waits; ++wait) {
      if (!run_calls(shape, wait, nullptr).empty()) ++noticed;
    }
    EXPECT_GT(noticed, waits * 2 / 3) << algorithm_name(shape.algorithm) << ", of " << waits;
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
