// Settings of CollNet in the plugin. Its nodes are processes.
#include <fcntl.h>
#include <unistd.h>

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/nccl_plugin/session/settings/setting_rows.h"
#include "tests/support/collnet_nodes.h"
#include "tests/support/own_process.h"
#include "tests/support/setting_folder.h"

namespace ringpress::testing {
namespace {

struct CollNetSeen {
  std::string hash;        // Of the results of node 0,
  std::string statistics;  // its line of them,
  std::string errors;      // what it wrote to standard error,
  std::string looked;      // and what it saw of itself at the end.
};

struct CollNetJob {
  Environment environment;
  std::vector<std::size_t> counts = {40000};
  int steps = 1;
  int nodes = 2;
  std::string (*look)() = nullptr;
};

constexpr const char* kNodeErrors = "node.log";
constexpr const char* kNodeStatistics = "node.json";

void write_errors_to(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  dup2(file, STDERR_FILENO);
  close(file);
}

/// A hash of all results. Tensors stay where they are, as they are known by their addresses, too.
std::string reduce_in_nodes(const CollNetJob& job, ProxyNode& node, int rank) {
  std::vector<std::vector<std::byte>> sent, received;
  for (const std::size_t count : job.counts) {
    sent.push_back(gradient_of(count, count, rank, ncclFloat32));
    received.emplace_back(sent.back().size());
  }
  std::string hashes;
  for (int step = 0; step < job.steps; ++step) {
    for (std::size_t call = 0; call < sent.size(); ++call) {
      std::vector<std::byte>& to = received[call];
      const ProxyOperation operation{sent[call].data(), to.data(), job.counts[call],
                                     ncclFloat32,       2,         65536};
      if (node.run({operation}) != ncclSuccess) return "an error";
      const std::string_view bytes(reinterpret_cast<const char*>(to.data()), to.size());
      hashes += std::to_string(std::hash<std::string_view>()(bytes)) + " ";
    }
  }
  return hashes;
}

CollNetSeen run_collnet_job(const CollNetJob& job) {
  const SettingFolder& folder = SettingFolder::get();
  for (const char* const name : {kNodeErrors, kNodeStatistics}) folder.remove(name);
  NodeMeeting meeting(job.nodes), end(job.nodes);
  const auto reports = run_peers(PeerKind::kProcesses, job.nodes, [&](int rank) -> std::string {
    set_environment({{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_CACHE", "off"}});
    unsetenv("RINGPRESS_DEBUG");
    if (rank == 0) setenv("RINGPRESS_STATS", folder.path(kNodeStatistics).c_str(), 1);
    if (rank == 0) write_errors_to(folder.path(kNodeErrors));
    for (const auto& [name, value] : job.environment) setenv(name.c_str(), value.c_str(), 1);
    ProxyOptions options;
    options.rank = rank;
    ProxyNode node(open_plugin(kLibrary), options, &meeting, &NetLog::write);
    const ncclResult_t connected = node.connect();
    if (connected != ncclSuccess) return "connect: " + std::to_string(connected);
    std::string text = reduce_in_nodes(job, node, rank);
    end.wait();
    if (rank == 0 && job.look != nullptr) {
      wait_for_the_rendezvous();
      text = job.look();
    }
    end.wait();
    return text;
  });
  CollNetSeen seen;
  (job.look == nullptr ? seen.hash : seen.looked) = reports[0].text;
  seen.statistics = folder.read(kNodeStatistics);
  seen.errors = folder.read(kNodeErrors);
  return seen;
}

using CollNetLook = std::function<std::string(const CollNetSeen&)>;

std::function<std::string(const Variable&)> observe_nodes(CollNetJob job, CollNetLook look) {
  return [job = std::move(job), look = std::move(look)](const Variable& tested) {
    CollNetJob with_it = job;
    with_it.environment.push_back(tested);
    return look(run_collnet_job(with_it));
  };
}

std::string hash_seen(const CollNetSeen& seen) {
  return seen.hash;
}
std::string look_seen(const CollNetSeen& seen) {
  return seen.looked;
}

/// `"name": value,` in the statistics.
CollNetLook statistic_seen(const std::string& name) {
  return [name](const CollNetSeen& seen) {
    const std::size_t at = seen.statistics.find("\"" + name + "\"");
    return at == std::string::npos ? "none in: " + seen.statistics
                                   : seen.statistics.substr(at, seen.statistics.find(',', at) - at);
  };
}

/// Whether lines of a low level are there.
std::string level_seen(const CollNetSeen& seen) {
  return seen.errors.find(" INFO ") == std::string::npos ? "no lines" : "lines";
}

}  // namespace

std::vector<SettingRow> rows_of_plugin() {
  const SettingFolder& folder = SettingFolder::get();
  CollNetJob often{{}, {40000}, 6};
  CollNetJob two_tensors{{}, {20000, 24000}, 6};
  CollNetJob of_four = often;
  of_four.nodes = 4;
  CollNetJob of_seed{{{"RINGPRESS_CODEC", "qsgd"}}};
  CollNetJob by_rules{{{"RINGPRESS_CODEC", "none"}}};
  CollNetJob automatic{{{"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_DETERMINISTIC", "1"}}, {40000}, 6};
  CollNetJob of_budget = automatic;
  of_budget.environment.emplace_back("RINGPRESS_GRADIENTS", "all");
  CollNetJob by_tcp{{{"RINGPRESS_SHM", "0"}}};
  const auto looking = [&by_tcp](std::string (*look)()) {
    CollNetJob job = by_tcp;
    job.look = look;
    return observe_nodes(job, look_seen);
  };
  CollNetJob by_memory{};
  by_memory.look = count_of_shared_memories;
  const CollNetLook sent = statistic_seen("wire_bytes");
  const CollNetLook residuals = statistic_seen("residual_bytes");
  std::vector<SettingRow> rows = {
      {"RINGPRESS", "on", "off", observe_nodes({}, sent)},
      {"RINGPRESS_CODEC", "q4", "q8", observe_nodes({}, sent)},
      {"RINGPRESS_BUDGET", "q4", "q2", observe_nodes(of_budget, sent)},
      {"RINGPRESS_GRADIENTS", "known", "all", observe_nodes(automatic, sent)},
      {"RINGPRESS_MIN_BYTES", "1K", "1M", observe_nodes({}, sent)},
      {"RINGPRESS_EF", "1", "0", observe_nodes(often, hash_seen)},
      {"RINGPRESS_EF_MAX_BYTES", "0", "100000", observe_nodes(two_tensors, residuals)},
      {"RINGPRESS_SEED", "1", "2", observe_nodes(of_seed, hash_seen)},
      {"RINGPRESS_CHUNK_BYTES", "64K", "4K", observe_nodes({}, sent)},
      {"RINGPRESS_ALGO", "ring", "sra", observe_nodes(of_four, hash_seen)},
      {"RINGPRESS_RULES", folder.path("q2.csv"), folder.path("q8.csv"),
       [=](const Variable& tested) {
         write_rules_of_codecs();
         return observe_nodes(by_rules, sent)(tested);
       }},
      {"RINGPRESS_SOCKETS", "2", "3", looking(count_of_sockets)},
      {"RINGPRESS_TCP_CONGESTION", "reno", other_congestion(), looking(congestion_of_sockets)},
      {"RINGPRESS_SOCKET_IFNAME", "lo", other_interface(), looking(addresses_of_sockets)},
      {"RINGPRESS_PROGRESS_THREAD", "on", "off", looking(count_of_threads)},
      {"RINGPRESS_SHM", "1", "0", observe_nodes(by_memory, look_seen)},
      {"RINGPRESS_DEBUG", "warn", "info", observe_nodes({}, level_seen)},
  };
  for (SettingRow& row : rows) row.door = "Plugin";
  return rows;
}

}  // namespace ringpress::testing
