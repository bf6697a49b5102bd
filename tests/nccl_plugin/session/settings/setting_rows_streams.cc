// Settings of what the preloaded library makes of calls, over a stand-in for NCCL.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/nccl_plugin/session/settings/setting_rows.h"
#include "tests/support/cuda_job.h"
#include "tests/support/interposer_hosts.h"
#include "tests/support/interposer_job.h"
#include "tests/support/own_process.h"
#include "tests/support/peer_group.h"
#include "tests/support/setting_folder.h"

namespace ringpress::testing {
namespace {

namespace door = nccl_plugin::interposer;

struct StreamedJob {
  std::vector<Variable> environment;
  std::vector<std::size_t> counts = {20000};
  int steps = 1;
  std::vector<int> hosts = {0, 1};  // By rank.
};

struct StreamedSeen {
  std::string hash;   // Of rank 0's results.
  std::string zeros;  // "0" for a call whose result is all zeros, "1" for another.
  int exact = 0;      // All-reduces of NCCL's own, of all ranks,
  int sends = 0;      // and sends.
};

std::string hash_of_values(const std::vector<float>& values) {
  return std::to_string(std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}));
}

/// Of one rank. `reduce(send, receive)` makes a call.
template <typename Reduce>
void reduce_in_streams(const StreamedJob& job, int rank, StreamedSeen* seen, Reduce reduce) {
  std::vector<std::vector<float>> sent, received;
  for (const std::size_t count : job.counts) {
    sent.push_back(door::make_values(rank, count));
    received.emplace_back(count);
  }
  for (int step = 0; step < job.steps; ++step) {
    for (std::size_t call = 0; call < sent.size(); ++call) {
      EXPECT_EQ(reduce(sent[call], received[call]), ncclSuccess);
      if (rank != 0) continue;
      seen->hash += hash_of_values(received[call]) + " ";
      const bool is_zero = std::all_of(received[call].begin(), received[call].end(),
                                       [](float value) { return value == 0; });
      seen->zeros += is_zero ? "0" : "1";
    }
  }
}

/// Through a communicator whose ranks have been told that they are on several hosts.
StreamedSeen run_between_hosts(const StreamedJob& job) {
  StreamedSeen seen;
  const int exact_before = door::all_reduces, sends_before = door::sends;
  door::run_hosts(door::make_settings(job.environment), job.hosts,
                  [&](const std::shared_ptr<door::Comm>& comm, int rank) {
                    reduce_in_streams(job, rank, &seen, [&](const auto& send, auto& receive) {
                      return door::all_reduce(comm, send, receive, ncclSum);
                    });
                  });
  seen.exact = door::all_reduces - exact_before;
  seen.sends = door::sends - sends_before;
  return seen;
}

/// Through the engine, which has the ranks meet.
StreamedSeen run_through_engine(const StreamedJob& job) {
  StreamedSeen seen;
  const int exact_before = door::all_reduces;
  door::Job engine(door::make_settings(job.environment));
  door::run_ranks(engine, static_cast<int>(job.hosts.size()), [&](ncclComm_t comm, int rank) {
    reduce_in_streams(job, rank, &seen, [&](const auto& send, auto& receive) {
      return engine.all_reduce(comm, send, receive);
    });
  });
  seen.exact = door::all_reduces - exact_before;
  return seen;
}

using StreamedLook = std::string (*)(const StreamedSeen&);
using StreamedRun = StreamedSeen (*)(const StreamedJob&);

std::function<std::string(const Variable&)> observe_streams(StreamedJob job, StreamedLook look,
                                                            StreamedRun run = run_between_hosts) {
  return [=, job = std::move(job)](const Variable& tested) {
    StreamedJob with_it = job;
    with_it.environment.push_back(tested);
    return look(run(with_it));
  };
}

std::string streamed_hash(const StreamedSeen& seen) {
  return seen.hash;
}
std::string streamed_zeros(const StreamedSeen& seen) {
  return seen.zeros;
}
std::string streamed_exact(const StreamedSeen& seen) {
  return "exact: " + std::to_string(seen.exact);
}
std::string streamed_sends(const StreamedSeen& seen) {
  return "sends: " + std::to_string(seen.sends);
}

/// What rank 0's statistics say of a number, after calls of two tensors.
std::string observe_residuals(const Variable& tested) {
  constexpr const char* kName = "streams.json";
  SettingFolder::get().remove(kName);
  run_through_engine(
      {{tested, {"RINGPRESS_STATS", SettingFolder::get().path(kName)}}, {20000, 24000}, 6});
  const std::string text = SettingFolder::get().read(kName);
  const std::size_t at = text.find("\"residual_bytes\"");
  return at == std::string::npos ? "none in: " + text : text.substr(at, text.find(',', at) - at);
}

/// What is left in a folder by a process, which has one trace.
std::string observe_files_of_streams(const Variable& tested) {
  namespace fs = std::filesystem;
  const fs::path folder = SettingFolder::get().path("streams");
  fs::remove_all(folder);
  fs::create_directory(folder);
  run_peers(PeerKind::kProcesses, 1, [&](int) {
    run_through_engine({{tested}, {20000, 30000, 17000}, 40});
    return "";
  });
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (fs::file_size(entry) > 0) names.insert(entry.path().filename().string());
  }
  return "written: " + joined(names);
}

/// What automatic mode writes of its decisions where sends are slow.
std::string observe_decisions(const std::vector<Variable>& variables) {
  ringpressRealNccl slow = door::nccl_in_streams();
  slow.Send = [](const void* data, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                 cudaStream_t stream) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return door::nccl_in_streams().Send(data, count, dtype, peer, comm, stream);
  };
  // Small ones: kernels take long on fibers.
  std::vector<Variable> all = {
      {"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_GRADIENTS", "all"}, {"RINGPRESS_MIN_BYTES", "4K"}};
  all.insert(all.end(), variables.begin(), variables.end());
  const auto reduce = [&](const std::shared_ptr<door::Comm>& comm, int rank) {
    const cudaStream_t stream = door::make_stream();
    std::vector<float> values = door::make_values(rank, 4000);
    for (int call = 0; call < 40; ++call) {
      door::PlannedCall planned{{CollectiveKind::kAllReduce, values.data(), values.data(),
                                 values.size(), ncclFloat32, ncclAvg, comm->handle(), stream}};
      const bool is_ours = comm->planner().plan(&planned);
      const door::AcceptedCall accepted{comm, planned};
      EXPECT_EQ(
          is_ours ? door::run_calls(slow, {&accepted, 1}) : door::run_exactly(slow, planned.call),
          ncclSuccess);
    }
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  };
  for (const char* const name : {"first.csv", "second.csv"}) SettingFolder::get().remove(name);
  door::run_hosts(door::cuda_settings(all), {0, 1}, reduce, slow);
  std::string text;
  for (const char* const name : {"first.csv", "second.csv"}) {
    text += SettingFolder::get().read(name).empty() ? "nothing " : "decisions ";
  }
  return text;
}

std::string observe_decision_log(const Variable& tested) {
  return observe_decisions({tested});
}
std::string observe_whether_it_decides(const Variable& tested) {
  return observe_decisions(
      {{"RINGPRESS_TUNING_LOG", SettingFolder::get().path("first.csv")}, tested});
}

/// Rank 1 has an engine of another secret, and is not waited for long: whether the ranks meet.
std::string observe_meeting(const Variable& tested) {
  const std::string own = "swordfish";
  const std::string patience = tested.second == own ? "60000" : "700";
  const std::vector<Variable> usual = {{"RINGPRESS_SECRET", own},
                                       {"RINGPRESS_TIMEOUT_MS", patience}};
  std::vector<Variable> others = usual;
  others.push_back(tested);
  door::Job first(door::make_settings(usual)), second(door::make_settings(others));
  const ncclUniqueId id = first.make_id();
  const int before = door::sends;
  door::run_threads(2, [&](int rank) {
    door::Job& job = rank == 0 ? first : second;
    const ncclComm_t comm = job.join(id, 2, rank);
    std::vector<float> values = door::make_values(rank, 20000);
    EXPECT_EQ(job.all_reduce(comm, values, values), ncclSuccess);
    job.destroy(comm);
  });
  return door::sends > before ? "compressed" : "exact";
}

/// Whether the place where ranks meet is an address of lo. It stands in an id after the stand-in's
/// own part.
std::string observe_meeting_place(const Variable& tested) {
  constexpr std::size_t kPlaceOffset = 56;
  door::Job job(door::make_settings({tested}));
  const ncclUniqueId id = job.make_id();
  const std::string_view place(id.internal + kPlaceOffset, sizeof id.internal - kPlaceOffset);
  return place.find("127.0.0.1:") == std::string_view::npos ? "elsewhere" : "on lo";
}

}  // namespace

std::vector<SettingRow> rows_of_streams() {
  const SettingFolder& folder = SettingFolder::get();
  StreamedJob of_seed{{{"RINGPRESS_CODEC", "qsgd"}}};
  StreamedJob of_budget{{{"RINGPRESS_CODEC", "auto"},
                         {"RINGPRESS_GRADIENTS", "all"},
                         {"RINGPRESS_DETERMINISTIC", "1"}},
                        {20000},
                        6};
  StreamedJob by_rules{{{"RINGPRESS_CODEC", "none"}}};
  StreamedJob of_four{{}, {20000}, 1, {0, 1, 2, 3}};
  StreamedJob in_turn{{{"RINGPRESS_ALGO", "ring"}}, {20000}, 1, {0, 1, 0, 1}};
  StreamedJob put_off{{{"RINGPRESS_CODEC", "none"}, {"RINGPRESS_LAZY", "1000"}}, {2000}, 20};
  std::vector<SettingRow> rows = {
      {"RINGPRESS", "on", "observe", observe_streams({}, streamed_exact)},
      {"RINGPRESS_CODEC", "q4", "q8", observe_streams({}, streamed_hash)},
      {"RINGPRESS_BUDGET", "q4", "q2", observe_streams(of_budget, streamed_hash)},
      {"RINGPRESS_MIN_BYTES", "2K", "1M", observe_streams({}, streamed_exact)},
      {"RINGPRESS_EF", "1", "0", observe_streams({{}, {20000}, 8}, streamed_hash)},
      {"RINGPRESS_EF_MAX_BYTES", "0", "100000", observe_residuals},
      {"RINGPRESS_SEED", "1", "2", observe_streams(of_seed, streamed_hash)},
      {"RINGPRESS_CHUNK_BYTES", "64K", "4K", observe_streams({}, streamed_sends)},
      {"RINGPRESS_ALGO", "ring", "sra", observe_streams(of_four, streamed_hash)},
      {"RINGPRESS_TOPOLOGY", "hosts", "ranks", observe_streams(in_turn, streamed_hash)},
      {"RINGPRESS_RULES", folder.path("q2.csv"), folder.path("q8.csv"),
       [=](const Variable& tested) {
         write_rules_of_codecs();
         return observe_streams(by_rules, streamed_hash)(tested);
       }},
      {"RINGPRESS_LAZY", "0", "2.5", observe_streams(put_off, streamed_zeros, run_through_engine)},
      {"RINGPRESS_LAZY_CALLS", "3", "5",
       observe_streams(put_off, streamed_zeros, run_through_engine)},
      {"RINGPRESS_DETERMINISTIC", "0", "1", observe_whether_it_decides},
      {"RINGPRESS_TUNING_LOG", folder.path("first.csv"), folder.path("second.csv"),
       observe_decision_log},
      {"RINGPRESS_STATS", folder.path("streams/first"), folder.path("streams/second"),
       observe_files_of_streams},
      {"RINGPRESS_TRACE", folder.path("streams/first"), folder.path("streams/second"),
       observe_files_of_streams},
      {"RINGPRESS_SECRET", "swordfish", "sardine", observe_meeting},
      {"RINGPRESS_SOCKET_IFNAME", "lo", other_interface(), observe_meeting_place},
  };
  for (SettingRow& row : rows) row.door = "Preloaded";
  return rows;
}

}  // namespace ringpress::testing
