// Settings of the preloaded library and of the plugin.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/nccl_plugin/session/settings/setting_rows.h"
#include "tests/support/cuda_job.h"
#include "tests/support/interposer_job.h"
#include "tests/support/net_driver.h"
#include "tests/support/peer_group.h"
#include "tests/support/preload_run.h"

namespace ringpress::testing {
namespace {

namespace door = nccl_plugin::interposer;

/// A program with a library before it: how its calls of sums were made, or what it said.
std::string observe_program(const char* program, const Environment& environment) {
  const Output output = run(with({"RINGPRESS_CODEC=q4", "RINGPRESS_SOCKET_IFNAME=lo"}, environment),
                            client(program, 2, "all"));
  if (output.status != 0) return "failed: " + std::to_string(output.status);
  const auto [smallest, largest] = lossy_errors(Results(output.text));
  return largest < 1e-6 ? "exact" : smallest > 1e-3 ? "compressed" : "some compressed";
}

std::string observe_backend(const Variable& tested) {
  return observe_program(CLIENT, {preload(SHIM), tested.first + "=" + tested.second});
}

/// Nowhere else would it find an NCCL.
std::string observe_real_nccl(const Variable& tested) {
  return observe_program(OPENING_CLIENT, {preload(SHIM_AS_NCCL), "RINGPRESS_BACKEND=host",
                                          tested.first + "=" + tested.second});
}

/// How often a captured all-reduce, replayed, is NCCL's own.
std::string observe_graph(const Variable& tested) {
  door::CudaJob job(door::cuda_settings({tested}));
  const int before = door::all_reduces;
  door::run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    const cudaStream_t stream = door::make_stream();
    std::vector<float> values = door::make_values(rank, 20000);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(job.reduce(comm, values, stream), ncclSuccess);
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    fakeReplay(graph);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  });
  return "NCCL's own: " + std::to_string(door::all_reduces - before);
}

/// Whether an all-gather gives the values or what a codec makes of them.
std::string observe_all_gather(const Variable& tested) {
  door::Job job(door::make_settings({tested}));
  bool is_exact = false;
  door::run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    constexpr std::size_t kCount = 20000;
    const std::vector<float> own = door::make_values(rank, kCount);
    std::vector<float> all(2 * kCount);
    EXPECT_EQ(job.engine.reduce({CollectiveKind::kAllGather, own.data(), all.data(), kCount,
                                 ncclFloat32, ncclSum, comm, nullptr}),
              ncclSuccess);
    if (rank == 0) is_exact = std::equal(own.begin(), own.end(), all.begin());
  });
  return is_exact ? "exact" : "compressed";
}

/// Which network the plugin gives to NCCL.
std::string observe_network(const Variable& tested) {
  const auto reports = run_peers(PeerKind::kProcesses, 1, [&](int) -> std::string {
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv(tested.first.c_str(), tested.second.c_str(), 1);
    void* const library = dlopen(RINGPRESS_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return dlerror();
    NetDriver<abi::NetV11> net(library);
    int devices = 0;
    const int made = net.init(), counted = net.table().devices(&devices);
    NetDriver<abi::NetV11>::Properties first{};
    const int described = net.table().get_properties(0, &first);
    std::string text = net.table().name;
    for (const int number : {made, counted, described, first.speed_mbps}) {
      text += ", " + std::to_string(number);
    }
    return text;
  });
  return reports[0].text;
}

}  // namespace

std::vector<SettingRow> rows_of_nccl_doors() {
  return {
      {"RINGPRESS_BACKEND", "host", "cuda", observe_backend},
      {"RINGPRESS_REAL_NCCL", FAKE_NCCL, "/nowhere/libnccl.so.2", observe_real_nccl},
      {"RINGPRESS_GRAPH", "0", "1", observe_graph},
      {"RINGPRESS_ALL_GATHER", "0", "1", observe_all_gather},
      {"RINGPRESS_NEXT_NET_PLUGIN", FAKE_NET, "", observe_network},
  };
}

}  // namespace ringpress::testing
