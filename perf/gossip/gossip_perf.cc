// What gossip costs beside training: the pass that finds out how far a model has moved, beside
// reading as much memory; and many steps whose triggers are left to chance, in which partners must
// agree.
//
//   gossip_perf pass          GB/s of both, interleaved, medians
//   gossip_perf steps [N]     100000 steps, or N, of 8 workers that are threads
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "compress_kernels/factory.h"
#include "nccl_plugin/gossip/communicator_peers.h"
#include "nccl_plugin/gossip/gossip.h"
#include "nccl_plugin/gossip/host_models.h"
#include "ringpress/internal/communicator.h"

namespace ringpress::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPassElements = std::size_t{32} << 20;  // 128 MiB each: beyond any cache.
constexpr int kRepetitions = 15;
constexpr int kWorkers = 8;

template <typename Work>
double seconds_of(Work&& work) {
  const Clock::time_point begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// Reads both at a time, and does as little with it as can be; asks ahead as the pass does.
std::uint64_t read_both(const std::vector<float>& a, const std::vector<float>& b) {
  constexpr std::size_t kLine = 64, kAhead = 2048;
  const auto* first = reinterpret_cast<const char*>(a.data());
  const auto* second = reinterpret_cast<const char*>(b.data());
  const std::size_t bytes = a.size() * sizeof(float);
  std::uint64_t sums[kLine / sizeof(std::uint64_t)] = {};
  for (std::size_t at = 0; at + kLine <= bytes; at += kLine) {
    for (const char* const line : {first + at, second + at}) {
      __builtin_prefetch(
          reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(line) + kAhead));
      std::uint64_t words[std::size(sums)];
      std::memcpy(words, line, kLine);
      for (std::size_t lane = 0; lane < std::size(sums); ++lane) sums[lane] += words[lane];
    }
  }
  return std::accumulate(std::begin(sums), std::end(sums), std::uint64_t{0});
}

int measure_pass() {
  std::vector<float> model(kPassElements, 1.0F), reference(kPassElements, 0.999F);
  std::vector<double> reading, passing;
  double change = 0;
  std::uint64_t read = 0;
  for (int i = 0; i < kRepetitions; ++i) {
    reading.push_back(seconds_of([&] { read ^= read_both(model, reference); }));
    passing.push_back(seconds_of([&] {
      change += compress_kernels::measure_change(model.data(), reference.data(), kPassElements,
                                                 DType::kFloat32)
                    .difference_squares;
    }));
  }
  const double bytes = 2.0 * kPassElements * sizeof(float);
  const double reads = median(reading), passes = median(passing);
  std::printf(
      "reading %.2f GB/s, the pass %.2f GB/s: %.2f of it (%d repetitions, medians; %llx %g)\n",
      1e-9 * bytes / reads, 1e-9 * bytes / passes, reads / passes, kRepetitions,
      static_cast<unsigned long long>(read), change);
  return 0;
}

/// Whom a worker has exchanged with, and what its model was then, step by step.
struct Worker {
  std::vector<std::int8_t> partners;
  std::vector<std::size_t> models;  // Hashes.
  std::uint64_t exchanges = 0;
  std::string failure;
};

std::size_t hash_of(const std::vector<float>& model) {
  const auto* const bytes = reinterpret_cast<const char*>(model.data());
  return std::hash<std::string_view>()({bytes, model.size() * sizeof(float)});
}

void walk(nccl_plugin::gossip::Peers& peers, int rank, long steps, Worker* worker) {
  constexpr std::size_t kCount = 64;
  std::mt19937 generator(static_cast<unsigned>(rank));
  std::vector<float> model(kCount, 1.0F);
  nccl_plugin::gossip::GossipOptions options;
  options.count = kCount;
  options.rule = {0.3, 2, 20, 0};
  auto gossip =
      nccl_plugin::gossip::Gossip::make(peers, std::make_unique<nccl_plugin::gossip::HostModels>(),
                                        options, model.data())
          .value();
  for (long step = 0; step < steps; ++step) {
    // Now little, now enough to ask for an exchange. It stays as large as it is.
    const float reach = static_cast<float>(generator() % 1000) / 1000.0F;
    for (float& value : model) {
      value = 0.9F * value + reach * (static_cast<float>(generator() % 1000) / 1000.0F - 0.5F);
    }
    const auto report = gossip->step(peers, model.data());
    if (!report.is_ok()) {
      worker->failure = "step " + std::to_string(step) + ": " + report.status().message();
      return;
    }
    const bool met = report.value().has_exchanged;
    worker->partners.push_back(static_cast<std::int8_t>(met ? report.value().peer : -1));
    worker->models.push_back(hash_of(model));
    if (met) ++worker->exchanges;
  }
}

int check_steps(long steps) {
  const Settings settings = parse_settings({{"RINGPRESS_SOCKET_IFNAME", "lo"}}, nullptr);
  const UniqueId id = make_unique_id(settings).value();
  std::vector<Worker> workers(kWorkers);
  const double seconds = seconds_of([&] {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kWorkers; ++rank) {
      threads.emplace_back([&, rank] {
        auto communicator = Communicator::create(id, rank, kWorkers, settings).value();
        nccl_plugin::gossip::CommunicatorPeers peers(*communicator);
        walk(peers, rank, steps, &workers[static_cast<std::size_t>(rank)]);
      });
    }
  });
  std::uint64_t exchanges = 0;
  std::size_t apart = 0;
  for (std::size_t rank = 0; rank < workers.size(); ++rank) {
    if (!workers[rank].failure.empty()) {
      std::printf("rank %zu: %s\n", rank, workers[rank].failure.c_str());
      return 1;
    }
    exchanges += workers[rank].exchanges;
    for (std::size_t step = 0; step < workers[rank].partners.size(); ++step) {
      const int partner = workers[rank].partners[step];
      if (partner < 0) continue;
      const Worker& other = workers[static_cast<std::size_t>(partner)];
      const bool is_alike = other.partners[step] == static_cast<int>(rank) &&
                            other.models[step] == workers[rank].models[step];
      if (!is_alike) ++apart;
    }
  }
  std::printf(
      "%ld steps of %d workers in %.0f s: %llu exchanges, %zu in which partners or their models "
      "differ\n",
      steps, kWorkers, seconds, static_cast<unsigned long long>(exchanges / 2), apart);
  return apart == 0 ? 0 : 1;
}

int run(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  if (what == "pass") return measure_pass();
  if (what == "steps") return check_steps(count > 2 ? std::max(1L, std::atol(words[2])) : 100000);
  std::fprintf(stderr, "usage: gossip_perf pass | steps [N]\n");
  return 2;
}

}  // namespace
}  // namespace ringpress::perf

int main(int count, char** words) {
  return ringpress::perf::run(count, words);
}
