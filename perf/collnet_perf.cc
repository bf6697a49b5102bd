// All-reduces through the plugin library's CollNet table, driven by the stand-in for NCCL's proxy
// that the tests use: one process per node, 8 calls under way, codecs interleaved.
//
//   perf/shaped.sh --ranks 4 --rate 1gbit -- build/perf/collnet_perf --folder /tmp/meet
//
// Rank 0 prints one JSON object.
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nccl_plugin/command/terminal/standard_output.h"
#include "tests/support/collnet_proxy.h"
#include "tests/support/random_tensor.h"

namespace {

using ringpress::testing::Meeting;
using ringpress::testing::ProxyNode;
using ringpress::testing::ProxyOperation;
using ringpress::testing::ProxyOptions;

constexpr int kBadUsage = 2;

/// Nodes that share nothing but a folder.
class FolderMeeting final : public Meeting {
 public:
  FolderMeeting(std::string folder, int size) : folder_(std::move(folder)), size_(size) {}
  int size() const override { return size_; }
  std::vector<Bytes> gather(int rank, const void* own) override {
    const std::string prefix = folder_ + "/" + std::to_string(round_++) + "-";
    const std::string path = prefix + std::to_string(rank);
    std::ofstream(path + ".part", std::ios::binary)
        .write(static_cast<const char*>(own), sizeof(Bytes));
    std::filesystem::rename(path + ".part", path);
    std::vector<Bytes> all(static_cast<std::size_t>(size_));
    for (int peer = 0; peer < size_; ++peer) {
      const std::string theirs = prefix + std::to_string(peer);
      while (!std::filesystem::exists(theirs)) usleep(1000);
      std::ifstream(theirs, std::ios::binary)
          .read(all[static_cast<std::size_t>(peer)].data(), sizeof(Bytes));
    }
    return all;
  }

 private:
  const std::string folder_;
  const int size_;
  int round_ = 0;
};

struct Options {
  std::string folder;
  std::vector<std::string> codecs = {"none", "q4"};
  std::size_t bytes = 64 << 20;
  std::size_t channels = 8;
  std::size_t chunk_bytes = 256 * 1024;
  int repetitions = 5;
  int rank = 0;
  int size = 1;
};

/// One codec's communicator and what was measured on it.
struct Contender {
  std::string codec;
  std::string statistics_path;
  std::unique_ptr<ProxyNode> node;
  std::vector<std::uint32_t> call_ns;
  std::vector<std::uint32_t> control_ns;
  std::vector<double> seconds;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
}

double percentile(std::vector<std::uint32_t> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

/// Ends the communicator. What the library says of all its calls, the warm-up's too.
nlohmann::json end(Contender* contender) {
  contender->node.reset();
  std::ifstream file(contender->statistics_path);
  return nlohmann::json::parse(file);
}

/// Times stand under a codec's name only if all calls went by it.
void require_codec(const std::string& asked, const nlohmann::json& statistics) {
  if (asked == "auto") return;
  const auto used = statistics.at("last_codec").get<std::string>();
  const auto calls = statistics.at("calls").get<std::uint64_t>();
  const auto compressed = statistics.at("compressed_calls").get<std::uint64_t>();
  const bool is_it = used.substr(0, used.find(':')) == asked.substr(0, asked.find(':'));
  if (calls > 0 && is_it && compressed == (asked == "none" ? 0 : calls)) return;
  throw std::runtime_error(
      fmt::format("{}: {} of {} calls were compressed, the last went by {}: {}", asked, compressed,
                  calls, used, statistics.at("exact_calls").dump()));
}

/// Why the nodes cannot meet there; empty if they can.
std::string problem_of(const std::string& folder) {
  if (!std::filesystem::is_directory(folder)) return folder + " is not a folder";
  if (access(folder.c_str(), R_OK | W_OK | X_OK) == 0) return "";
  return folder + ": " + std::strerror(errno);
}

int number_of(const char* variable, int fallback) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? fallback : std::atoi(text);
}

void run(const Options& options) {
  FolderMeeting meeting(options.folder, options.size);
  void* const library = ringpress::testing::open_plugin(RINGPRESS_PLUGIN);
  std::vector<Contender> contenders(options.codecs.size());
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    Contender& contender = contenders[i];
    contender.codec = options.codecs[i];
    contender.statistics_path = fmt::format("{}/statistics-{}-{}", options.folder, options.rank, i);
    setenv("RINGPRESS_CODEC", contender.codec.c_str(), 1);
    setenv("RINGPRESS_STATS", contender.statistics_path.c_str(), 1);
    ProxyOptions proxy;
    proxy.rank = options.rank;
    proxy.comm_id = i;
    proxy.channels = options.channels;
    proxy.slot_bytes = options.chunk_bytes;
    proxy.copies = false;
    proxy.sleeps = true;
    proxy.nanoseconds = &contender.call_ns;
    proxy.control_nanoseconds = &contender.control_ns;
    contender.node = std::make_unique<ProxyNode>(library, proxy, &meeting, nullptr);
    if (contender.node->connect() != ncclSuccess) throw std::runtime_error("connect failed");
  }
  const auto values = ringpress::testing::random_gradient(options.bytes / 4, 1, options.rank);
  std::vector<float> result(values.size());
  const ProxyOperation operation{values.data(), result.data(),    values.size(),
                                 ncclFloat32,   options.channels, options.chunk_bytes};
  for (Contender& contender : contenders) contender.node->fill(values.data(), options.bytes);
  for (int repetition = -1; repetition < options.repetitions; ++repetition) {
    for (Contender& contender : contenders) {
      contender.call_ns.reserve(100000);
      contender.control_ns.reserve(100000);
      if (repetition <= 0) contender.call_ns.clear();
      if (repetition <= 0) contender.control_ns.clear();
      const auto started = std::chrono::steady_clock::now();
      if (contender.node->run({operation}) != ncclSuccess) throw std::runtime_error("failed");
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
      if (repetition >= 0) contender.seconds.push_back(took.count());
    }
  }
  std::vector<nlohmann::json> statistics;
  for (Contender& contender : contenders) {
    statistics.push_back(end(&contender));
    require_codec(contender.codec, statistics.back());
  }
  if (options.rank != 0) return;
  nlohmann::ordered_json report;
  report["ranks"] = options.size;
  report["bytes"] = options.bytes;
  report["call_bytes"] = options.channels * options.chunk_bytes;
  const double base = median(contenders[0].seconds);
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const Contender& contender = contenders[i];
    report["codecs"].push_back({{"codec", contender.codec},
                                {"last_codec", statistics[i].at("last_codec")},
                                {"seconds", median(contender.seconds)},
                                {"speedup", base / median(contender.seconds)},
                                {"call_p50_ns", percentile(contender.call_ns, 0.5)},
                                {"call_p99_ns", percentile(contender.call_ns, 0.99)},
                                {"control_p50_ns", percentile(contender.control_ns, 0.5)},
                                {"control_p99_ns", percentile(contender.control_ns, 0.99)}});
  }
  fmt::print("{}\n", report.dump(2));
}

int run_program(int argc, char** argv) {
  Options options;
  options.rank = number_of("RANK", 0);
  options.size = number_of("WORLD_SIZE", 1);
  CLI::App app{"All-reduces through the CollNet plugin"};
  app.add_option("--folder", options.folder, "Empty folder that all ranks see")->required();
  app.add_option("--codecs", options.codecs, "Compared with the first")->delimiter(',');
  app.add_option("--bytes", options.bytes, "Of the tensor (float32)")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--channels", options.channels, "Channels, at most 8 to a call");
  app.add_option("--chunk", options.chunk_bytes, "Bytes of a channel's part of a call")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--repetitions", options.repetitions, "Timed, after one that is not")
      ->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : kBadUsage;
  }
  const std::string problem = problem_of(options.folder);
  if (!problem.empty()) {
    fmt::print(stderr, "collnet_perf: --folder: {}\n", problem);
    return kBadUsage;
  }
  try {
    run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "collnet_perf: {}\n", error.what());
    return 1;
  }
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  return ringpress::terminal::end_with(run_program(argc, argv), "collnet_perf");
}
