// Every table of the plugin library with arguments that no caller should give it: null pointers,
// impossible numbers, handles that never were or are gone. It answers, and nothing else happens.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "nccl_plugin/abi/env_v1.h"
#include "nccl_plugin/abi/env_v2.h"
#include "nccl_plugin/abi/tuner_v2.h"
#include "nccl_plugin/abi/tuner_v3.h"
#include "nccl_plugin/abi/tuner_v4.h"
#include "nccl_plugin/abi/tuner_v5.h"
#include "nccl_plugin/abi/tuner_v6.h"
#include "tests/support/collnet_nodes.h"
#include "tests/support/random_arguments.h"
#include "tests/support/scoped_environment.h"

namespace ringpress::testing {
namespace {

constexpr int kRounds = 300;

void expect_answer(ncclResult_t result) {
  EXPECT_GE(static_cast<int>(result), 0);
  EXPECT_LT(static_cast<int>(result), static_cast<int>(ncclNumResults));
}
void expect_answer(const char*) {}
void expect_success(ncclResult_t result) {
  EXPECT_EQ(result, ncclSuccess);
}

/// Many times each function, in random order; tables have null where they have none.
template <typename Expect, typename... Functions>
void call_all(unsigned seed, Expect expect, Functions... functions) {
  RandomArguments arguments(seed);
  std::mt19937 random(seed);
  const auto call = [&](auto* function) {
    if (function != nullptr && random() % 2 == 0) expect(arguments.call(function));
  };
  for (int round = 0; round < kRounds; ++round) {
    (call(functions), ...);
  }
  const auto close = [&](auto* function) {  // Whatever kind a handle is of: others are refused.
    if constexpr (std::is_invocable_v<decltype(function), void*>) {
      if (function == nullptr) return;
      for (void* const handle : arguments.handles()) expect(function(handle));
    }
  };
  (close(functions), ...);
}

template <typename Table>
const Table& table_of(const std::string& name) {
  return plugin_table<const Table>(open_plugin(kLibrary), name);
}

template <typename Table>
void call_net(int version) {
  const auto& t = table_of<Table>("ncclNetPlugin_v" + std::to_string(version));
  const auto answers = [](auto result) { expect_answer(result); };
  call_all(static_cast<unsigned>(version), answers, t.init, t.devices, t.get_properties, t.listen,
           t.connect, t.accept, t.reg_mr, t.dereg_mr, t.isend, t.irecv, t.iflush, t.test,
           t.close_send, t.close_receive, t.close_listen, t.get_device_mr, t.irecv_consumed);
  if constexpr (requires { t.finalize; }) {
    call_all(static_cast<unsigned>(version), answers, t.init, t.finalize, t.set_net_attributes);
  }
}

template <typename Table>
void call_collnet(int version) {
  const auto& t = table_of<Table>("ncclCollNetPlugin_v" + std::to_string(version));
  const auto answers = [](auto result) { expect_answer(result); };
  call_all(static_cast<unsigned>(version), answers, t.init, t.devices, t.get_properties, t.listen,
           t.connect, t.reduce_support, t.reg_mr, t.dereg_mr, t.iallreduce, t.iflush, t.test,
           t.close_coll, t.close_listen);
  if constexpr (requires { t.finalize; }) {
    call_all(static_cast<unsigned>(version), answers, t.init, t.finalize);
  }
}

template <typename Table>
void call_tuner(int version) {
  const auto& t = table_of<Table>("ncclTunerPlugin_v" + std::to_string(version));
  const auto succeeds = [](auto result) { expect_success(result); };
  if constexpr (requires { t.get_chunk_size; }) {
    call_all(6, succeeds, t.init, t.get_coll_info, t.get_chunk_size, t.finalize);
  } else if constexpr (requires { t.finalize; }) {
    call_all(5, succeeds, t.init, t.get_coll_info, t.finalize);
  } else {
    call_all(static_cast<unsigned>(version), succeeds, t.init, t.get_coll_info, t.destroy);
  }
}

template <typename Table>
void call_profiler(int version) {
  const auto& t = table_of<Table>("ncclProfiler_v" + std::to_string(version));
  call_all(
      static_cast<unsigned>(version), [](auto result) { expect_success(result); }, t.init,
      t.start_event, t.stop_event, t.record_event_state, t.finalize);
}

class PluginArguments : public ::testing::Test {
 protected:
  PluginArguments() { set_environment({{"RINGPRESS_TIMEOUT_MS", "1000"}}); }
};

TEST_F(PluginArguments, OfTheNetwork) {
  call_net<abi::NetV7>(7);
  call_net<abi::NetV8>(8);
  call_net<abi::NetV9>(9);
  call_net<abi::NetV10>(10);
  call_net<abi::NetV11>(11);
  call_net<abi::NetV12>(12);
}

TEST_F(PluginArguments, OfCollNet) {
  call_collnet<abi::CollNetV7>(7);
  call_collnet<abi::CollNetV8>(8);
  call_collnet<abi::CollNetV9>(9);
  call_collnet<abi::CollNetV10>(10);
  call_collnet<abi::CollNetV11>(11);
  call_collnet<abi::CollNetV12>(12);
}

// The library may be loaded as a tuner alone: none of its other tables is ever initialised.
TEST_F(PluginArguments, OfTheTunerAlone) {
  set_environment({{"NCCL_MIN_NCHANNELS", "2"}, {"RINGPRESS_CODEC", "q4"}});
  call_tuner<abi::TunerV2>(2);
  call_tuner<abi::TunerV3>(3);
  call_tuner<abi::TunerV4>(4);
  call_tuner<abi::TunerV5>(5);
  call_tuner<abi::TunerV6>(6);
}

TEST_F(PluginArguments, OfTheProfilerAlone) {
  call_profiler<abi::ProfilerV4>(4);
  call_profiler<abi::ProfilerV5>(5);
  call_profiler<abi::ProfilerV6>(6);
  call_profiler<abi::ProfilerV7>(7);
}

TEST_F(PluginArguments, OfTheEnvironmentAlone) {
  const auto answers = [](auto result) { expect_answer(result); };
  const auto& first = table_of<abi::EnvV1>("ncclEnvPlugin_v1");
  call_all(1, answers, first.init, first.get_env, first.finalize);
  const auto& second = table_of<abi::EnvV2>("ncclEnvPlugin_v2");
  call_all(2, answers, second.init, second.get_env, second.finalize);
}

/// One table of the profiler, as something else than NCCL may use it.
template <typename Table, typename Event>
class CarelessCaller {
 public:
  explicit CarelessCaller(const Table& table) : table_(table) {
    int mask = 0;
    if constexpr (std::is_same_v<Table, abi::ProfilerV4>) {
      table_.init(&other_ctx_, &mask, nullptr, 99, 2, 2, 0, nullptr);
    } else {
      table_.init(&other_ctx_, 99, &mask, nullptr, 2, 2, 0, nullptr);
    }
    // A communicator whose numbers of tensors are those of the one that is used.
    Event event = event_of(abi::kProfileColl);
    event.coll.function = "AllReduce";
    event.coll.algorithm = "COLLNET_CHAIN";
    event.coll.datatype = "ncclFloat32";
    event.coll.count = 1000;
    others_.resize(64);
    for (void*& tensor : others_) table_.start_event(other_ctx_, &tensor, &event);
  }
  ~CarelessCaller() { table_.finalize(other_ctx_); }
  CarelessCaller(const CarelessCaller&) = delete;
  CarelessCaller& operator=(const CarelessCaller&) = delete;

  void disturb(void* ctx, void* tensor) {
    for (void* const event : {tensor, others_[0], static_cast<void*>(nullptr), ctx}) {
      EXPECT_EQ(table_.record_event_state(event, -1, nullptr), ncclSuccess);
      EXPECT_EQ(table_.stop_event(event), ncclSuccess);
      EXPECT_EQ(table_.stop_event(event), ncclSuccess);
      EXPECT_EQ(table_.record_event_state(event, 1000, nullptr), ncclSuccess);
    }
    void* place = nullptr;
    EXPECT_EQ(table_.start_event(ctx, &place, nullptr), ncclSuccess);
    EXPECT_EQ(table_.start_event(ctx, nullptr, nullptr), ncclSuccess);
    for (const int type : {0, 16, 32, 64, 128, 255}) {
      Event unknown = event_of(type);
      unknown.parent = tensor;
      EXPECT_EQ(table_.start_event(ctx, &place, &unknown), ncclSuccess);
      EXPECT_EQ(place, nullptr);
    }
    Event nameless = event_of(abi::kProfileColl);
    EXPECT_EQ(table_.start_event(ctx, &place, &nameless), ncclSuccess);
    EXPECT_EQ(place, nullptr);
    start_channel(other_ctx_, tensor);
    for (void* const other : others_) start_channel(ctx, other);
  }

 private:
  static Event event_of(int type) {
    Event event;
    std::memset(static_cast<void*>(&event), 0, sizeof event);
    event.type = static_cast<decltype(event.type)>(type);
    return event;
  }
  void start_channel(void* ctx, void* parent) {
    Event event = event_of(abi::kProfileProxyOp);
    event.parent = parent;
    event.proxy_op.process = getpid();
    event.proxy_op.steps = 1;
    event.proxy_op.chunk_bytes = 65536;
    static thread_local void* place;
    EXPECT_EQ(table_.start_event(ctx, &place, &event), ncclSuccess);
  }

  const Table& table_;
  void* other_ctx_ = nullptr;
  std::vector<void*> others_;
};

/// What two nodes make of the same tensors, several times: error feedback shows in it.
template <typename Table, typename Event>
std::vector<PeerReport> sums(int version, const std::string& statistics, bool is_disturbed) {
  NodeMeeting meeting(2);
  return run_peers(PeerKind::kProcesses, 2, [&](int rank) -> std::string {
    set_environment({{"RINGPRESS_CODEC", "q2"}, {"RINGPRESS_STATS", statistics}});
    const auto& table = table_of<Table>("ncclProfiler_v" + std::to_string(version));
    CarelessCaller<Table, Event> careless(table);
    ProxyOptions options;
    options.rank = rank;
    options.profiler_version = version;
    options.channels = 3;
    // On one node alone: what it decides must still be what the other one does.
    if (is_disturbed && rank == 1) {
      options.after_event = [&](void* ctx, void* tensor) { careless.disturb(ctx, tensor); };
    }
    ProxyNode node(open_plugin(kLibrary), options, &meeting, &NetLog::write);
    if (node.connect() != ncclSuccess) return "connect";
    // The same buffers in each step: error feedback finds a tensor by its address, too.
    std::vector<ProxyOperation> operations;
    std::vector<std::vector<std::byte>> send, receive;
    for (const std::size_t count : {300000, 70001}) {
      send.push_back(gradient_of(count, count, rank, ncclFloat32));
      receive.emplace_back(count * sizeof(float));
      operations.push_back(
          {send.back().data(), receive.back().data(), count, ncclFloat32, 3, 65536});
    }
    std::string text;
    for (int step = 0; step < 6; ++step) {
      if (node.run(operations) != ncclSuccess) return "an error";
      for (const auto& bytes : receive) {
        const std::string_view view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        text += std::to_string(std::hash<std::string_view>{}(view)) + " ";
      }
    }
    return ::testing::Test::HasFailure() ? "a failure" : text;
  });
}

template <typename Table, typename Event>
void expect_undisturbed(int version) {
  const std::string path = ::testing::TempDir() + "plugin_arguments_" + std::to_string(getpid());
  const auto reports = sums<Table, Event>(version, path, false);
  EXPECT_NE(reports[0].text.find(' '), std::string::npos) << reports[0].text;
  unlink(path.c_str());
  expect_reports(sums<Table, Event>(version, path, true), reports[0].text);
  const std::string lines = read_file(path);
  EXPECT_NE(lines.find("\"unbiased_calls\": 0,"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("\"residual_bytes\": 0,"), std::string::npos) << lines;
  unlink(path.c_str());
}

// States after the end, of nothing and of others; ends twice; events of nothing and of no type.
TEST(PluginEvents, ThatMakeNoSenseChangeNoDecision) {
  expect_undisturbed<abi::ProfilerV4, abi::EventV4>(4);
  expect_undisturbed<abi::ProfilerV5, abi::EventV5>(5);
  expect_undisturbed<abi::ProfilerV6, abi::EventV6>(6);
  expect_undisturbed<abi::ProfilerV7, abi::EventV7>(7);
}

}  // namespace
}  // namespace ringpress::testing
