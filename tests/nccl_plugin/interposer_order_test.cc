// The order that a compressed call asks its streams for. A device that only takes notes finds every
// two accesses to the same memory, one of them a write, that no stream and no event puts in order:
// what a device without queues, on which everything happens at once, would never show.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nccl_plugin/interposer/devices.h"
#include "nccl_plugin/interposer/stream_call.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

/// How far one has seen each stream.
using Clock = std::map<Stream, std::size_t>;

struct Access {
  const std::byte* begin;
  const std::byte* end;
  bool is_write;
  Stream stream;
  Clock seen;  // With this operation itself.
  std::string what;
};

struct Notes {
  std::map<Stream, Clock> streams;
  std::map<Event, Clock> events;
  std::vector<Access> accesses;

  void operation(Stream stream) { ++streams[stream][stream]; }
  void access(Stream stream, const void* memory, std::size_t bytes, bool is_write,
              const char* what) {
    const auto* begin = static_cast<const std::byte*>(memory);
    if (begin == nullptr || bytes == 0) return;
    accesses.push_back({begin, begin + bytes, is_write, stream, streams[stream], what});
  }
  static bool is_before(const Access& a, const Access& b) {
    const auto seen = b.seen.find(a.stream);
    return seen != b.seen.end() && seen->second >= a.seen.at(a.stream);
  }
  /// The first pair that may happen in either order, or empty.
  std::string race() const {
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      for (std::size_t j = i + 1; j < accesses.size(); ++j) {
        const Access &a = accesses[i], &b = accesses[j];
        if (!a.is_write && !b.is_write) continue;
        if (a.begin >= b.end || b.begin >= a.end) continue;
        if (!is_before(a, b)) return a.what + " and, later asked for, " + b.what;
      }
    }
    return "";
  }
};

Notes* notes = nullptr;
constexpr std::size_t kLocalSize = 2;  // Ranks of a host.

class NotingCodec final : public DeviceCodec {
 public:
  explicit NotingCodec(std::unique_ptr<DeviceCodec> codec) : codec_(std::move(codec)) {}
  const Codec& codec() const override { return codec_->codec(); }
  Status supports(Contributions, std::size_t) const override { return Status::ok(); }

  Status encode(Stream stream, std::span<const EncodeArgs> shards) override {
    notes->operation(stream);
    for (const EncodeArgs& args : shards) {
      notes->access(stream, args.values, args.count * 4, false, "encode reads values");
      notes->access(stream, args.residual, args.count * 4, true, "encode writes its residual");
      notes->access(stream, args.wire, wire(args.count, args.form), true, "encode writes");
    }
    return Status::ok();
  }
  Status decode_add_encode(Stream stream, const DecodeAddEncodeArgs& args) override {
    notes->operation(stream);
    for (std::size_t i = 0; i < args.wires.size(); ++i) {
      notes->access(stream, args.wires[i], args.wire_sizes[i], false, "reduce reads");
    }
    notes->access(stream, args.values, args.count * 4, false, "reduce reads values");
    notes->access(stream, args.residual, args.count * 4, true, "reduce writes its residual");
    notes->access(stream, args.decoded, args.count * 4, true, "reduce writes values");
    notes->access(stream, args.wire, wire(args.count, args.form), true, "reduce writes");
    return Status::ok();
  }
  Status decode(Stream stream, std::span<const DecodeArgs> shards) override {
    notes->operation(stream);
    for (const DecodeArgs& args : shards) {
      notes->access(stream, args.wire, args.wire_size, false, "decode reads");
      notes->access(stream, args.values, args.count * 4, true, "decode writes values");
    }
    return Status::ok();
  }

 private:
  std::size_t wire(std::size_t count, Contributions form) const {
    return codec().wire_bytes(count, form);
  }
  std::unique_ptr<DeviceCodec> codec_;
};

class NotingDevice final : public Device {
 public:
  /// The wait with this number is left out: the test must notice.
  explicit NotingDevice(std::size_t forgotten_wait = 0) : forgotten_(forgotten_wait) {}

  const char* name() const override { return "notes"; }
  Result<void*> allocate(std::size_t bytes) override { return host_->allocate(bytes); }
  void free(void* memory) override { host_->free(memory); }
  Result<Stream> create_stream() override { return Stream(&names_[names_used_++]); }
  void destroy_stream(Stream) override {}
  Result<Event> create_event() override { return Event(&names_[names_used_++]); }
  void destroy_event(Event) override {}
  Status record(Event event, Stream stream) override {
    notes->events[event] = notes->streams[stream];
    return Status::ok();
  }
  Status wait(Stream stream, Event event) override {
    if (++waits == forgotten_) return Status::ok();
    for (const auto& [other, seen] : notes->events[event]) {
      auto& mine = notes->streams[stream][other];
      mine = std::max(mine, seen);
    }
    return Status::ok();
  }
  Result<std::uint64_t> capture(Stream) override { return std::uint64_t{0}; }
  Status keep_with_graph(Stream, std::shared_ptr<void>) override { return Status::ok(); }
  Status zero(Stream, void*, std::size_t) override { return Status::ok(); }
  Status copy(Stream, void*, const void*, std::size_t) override { return Status::ok(); }
  Status synchronize(Stream) override { return Status::ok(); }
  Result<std::unique_ptr<DeviceCodec>> make_codec(const std::string& specification, DType dtype,
                                                  ReduceOp op) override {
    RINGPRESS_ASSIGN_OR_RETURN(auto codec, host_->make_codec(specification, dtype, op));
    return std::unique_ptr<DeviceCodec>(std::make_unique<NotingCodec>(std::move(codec)));
  }

  std::size_t waits = 0;

 private:
  const std::size_t forgotten_;
  std::unique_ptr<Device> host_ = make_host_device();
  char names_[64];
  std::size_t names_used_ = 0;
};

ncclResult_t note_send(const void* memory, size_t bytes, ncclDataType_t, int, ncclComm_t,
                       cudaStream_t stream) {
  notes->access(stream, memory, bytes, false, "send");
  return ncclSuccess;
}
ncclResult_t note_receive(void* memory, size_t bytes, ncclDataType_t, int, ncclComm_t,
                          cudaStream_t stream) {
  notes->access(stream, memory, bytes, true, "receive");
  return ncclSuccess;
}

ncclResult_t note_scatter(const void* send, void* receive, size_t count, ncclDataType_t,
                          ncclRedOp_t, ncclComm_t, cudaStream_t stream) {
  notes->access(stream, send, 4 * count * kLocalSize, false, "exact scatter reads");
  notes->access(stream, receive, 4 * count, true, "exact scatter writes");
  return ncclSuccess;
}
ncclResult_t note_gather(const void* send, void* receive, size_t count, ncclDataType_t, ncclComm_t,
                         cudaStream_t stream) {
  notes->access(stream, send, 4 * count, false, "exact gather reads");
  notes->access(stream, receive, 4 * count * kLocalSize, true, "exact gather writes");
  return ncclSuccess;
}
ncclResult_t note_all_reduce(const void* send, void* receive, size_t count, ncclDataType_t,
                             ncclRedOp_t, ncclComm_t, cudaStream_t stream) {
  notes->access(stream, send, 4 * count, false, "exact all-reduce reads");
  notes->access(stream, receive, 4 * count, true, "exact all-reduce writes");
  return ncclSuccess;
}

struct Shape {
  Algorithm algorithm;
  std::size_t world;
  std::size_t count;
  CollectiveKind kind;
  bool in_place;
};

ringpressRealNccl noting_nccl() {
  ringpressRealNccl real{};
  real.Send = note_send;
  real.Recv = note_receive;
  real.ReduceScatter = note_scatter;
  real.AllGather = note_gather;
  real.AllReduce = note_all_reduce;
  return real;
}

std::unique_ptr<StreamCall> make_call(const Shape& shape, const StreamCallParts& parts) {
  if (shape.algorithm == Algorithm::kRing) return make_ring_call(parts);
  if (shape.algorithm == Algorithm::kSra) return make_sra_call(parts);
  HostParts host;
  host.rank = 1;
  host.size = kLocalSize;
  return make_hier_call(parts, host);
}

void run_call(const Shape& shape, const StreamCallParts& parts) {
  const auto call = make_call(shape, parts);
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
  const auto codec = device.make_codec("q4", DType::kFloat32, ReduceOp::kSum).value();
  LaneShape lane_shape =
      shape.algorithm == Algorithm::kRing ? ring_lane(shape.world) : sra_lane(shape.world);
  lane_shape.chunk_elements = 1024;
  lane_shape.region_bytes = 2 * codec->codec().wire_bytes(1024);
  const auto lane = Lane::make(device, lane_shape).value();
  const std::size_t elements =
      shape.kind == CollectiveKind::kReduceScatter ? shape.count * shape.world : shape.count;
  std::vector<float> send(elements), receive(elements), residual(elements);
  const ringpressRealNccl real = noting_nccl();
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
    run_call(shape, parts);
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
                         {Algorithm::kHier, 3, 9000, kAllReduce, false}};

TEST(InterposerOrder, NothingRaces) {
  for (const Shape& shape : kShapes) {
    EXPECT_EQ(run_calls(shape, 0, nullptr), "")
        << algorithm_name(shape.algorithm) << ' ' << shape.world << " ranks, " << shape.count;
  }
}

/// Every wait is needed for something: without it there is a race. But for the few at the end of a
/// pipeline whose work another wait covers.
TEST(InterposerOrder, AForgottenWaitIsNoticed) {
  for (const std::size_t number : {1, 6, 10}) {
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
