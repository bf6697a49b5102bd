#include "perf/levels/sums.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/tuning/step_levels.h"
#include "ring/factory.h"
#include "tests/support/thread_mesh.h"
#include "tests/support/thread_peers.h"

namespace ringpress::perf {
namespace {

using nccl_plugin::tuning::LeveledCall;
using nccl_plugin::tuning::LeveledPart;
using nccl_plugin::tuning::LevelFamily;
using nccl_plugin::tuning::make_level_family;
using nccl_plugin::tuning::StepLevels;

constexpr int kCalls = 11;

struct Measured {
  double bytes = 0;
  double error = 0;    // Of the sum; l2.
  double seconds = 0;  // Of all ranks' threads together; the least of several calls.
};

double seconds_of_process() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// What the ranks come to after a step that they have measured.
LeveledCall find_levels(const Settings& settings, const RankGradients& gradients,
                        const std::vector<Layer>& layers) {
  constexpr int kSteps = 6;  // Until the pattern is known, and three that are measured.
  LeveledCall found;
  testing::run_peers(static_cast<int>(gradients.values.size()), [&](testing::ThreadPeers& peers) {
    StepLevels levels(settings, peers, make_level_family(settings));
    const auto& values = gradients.values[static_cast<std::size_t>(peers.rank())];
    PlanRequest request;
    request.count = values.size();
    for (int step = 0; step < kSteps; ++step) {
      Decision decision;
      decision.codec = settings.budget.codec;
      if (!levels.choose(request, decision).is_ok()) throw std::runtime_error("levels are refused");
      if (!levels.wants_values()) continue;
      levels.take({values.data(), nullptr, values.size(), DType::kFloat32}, layers);
    }
    if (peers.rank() == 0) found = levels.levels().at(0);
  });
  return found;
}

/// The codecs of a call's parts.
class Parts {
 public:
  Parts(const LevelFamily& family, const LeveledCall& call) {
    for (const LeveledPart& part : call) {
      codecs_.push_back(compress_kernels::make_codec(family.specification(part.level),
                                                     DType::kFloat32, ReduceOp::kSum)
                            .value());
      parts_.push_back({part.end, codecs_.back().get()});
    }
  }
  std::span<const CodecPart> get() const { return parts_; }

 private:
  std::vector<std::unique_ptr<Codec>> codecs_;
  std::vector<CodecPart> parts_;
};

/// One all-reduce by sra, each rank in a thread; gives the result.
std::vector<float> all_reduce(const RankGradients& gradients, std::span<const CodecPart> parts,
                              double* bytes) {
  const auto world = gradients.values.size();
  const std::size_t count = gradients.values[0].size();
  const auto codec = compress_kernels::make_codec("q4", DType::kFloat32, ReduceOp::kSum).value();
  const auto sra = ring::make_collective(Algorithm::kSra);
  const auto fabric = std::make_shared<testing::ThreadFabric>(static_cast<int>(world), false);
  std::vector<std::vector<float>> results(world, std::vector<float>(count));
  std::vector<std::uint64_t> sent(world);
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      testing::ThreadMesh mesh(fabric, static_cast<int>(rank));
      CollectiveContext context;
      context.mesh = &mesh;
      context.codec = codec.get();
      context.parts = parts;
      context.call.count = count;
      if (!sra->all_reduce(context, {gradients.values[rank].data(), results[rank].data(), count})
               .is_ok()) {
        mesh.abort({Code::kSystem, "an all-reduce fails"});
      }
      sent[rank] = mesh.counters().sent_bytes;
    });
  }
  threads.clear();
  if (!fabric->failure().is_ok()) throw std::runtime_error(fabric->failure().message());
  *bytes = 0;
  for (const std::uint64_t of_rank : sent) *bytes += static_cast<double>(of_rank);
  return std::move(results[0]);
}

double error_of(const RankGradients& gradients, const std::vector<float>& sum) {
  double squares = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    double exact = 0;
    for (const auto& values : gradients.values) exact += double{values[i]};
    squares += std::pow(exact - double{sum[i]}, 2);
  }
  return std::sqrt(squares);
}

Measured measure(const RankGradients& gradients, std::span<const CodecPart> parts) {
  Measured measured;
  const double begin = seconds_of_process();
  const std::vector<float> sum = all_reduce(gradients, parts, &measured.bytes);
  measured.seconds = seconds_of_process() - begin;
  measured.error = error_of(gradients, sum);
  return measured;
}

/// With parts, over without; both in turn, as the machine may be busy now and then.
Measured compare(const RankGradients& gradients, std::span<const CodecPart> parts) {
  Measured with, without;
  with.seconds = without.seconds = std::numeric_limits<double>::infinity();
  for (int call = 0; call < kCalls; ++call) {
    for (const bool has_parts : {false, true}) {
      Measured& kept = has_parts ? with : without;
      Measured now = measure(gradients, has_parts ? parts : std::span<const CodecPart>());
      now.seconds = std::min(now.seconds, kept.seconds);
      kept = now;
    }
  }
  return {with.bytes / without.bytes, with.error / without.error, with.seconds / without.seconds};
}

std::vector<Layer> equal_layers(std::size_t count, std::size_t each) {
  std::vector<Layer> layers;
  for (std::size_t first = 0; first < count; first += each) {
    layers.push_back({first, std::min(each, count - first), 0, 0});
  }
  return layers;
}

}  // namespace

void measure_sums(const RankGradients& gradients) {
  const std::size_t count = gradients.values[0].size();
  struct Cut {
    const char* name;
    std::vector<Layer> layers;
  };
  const std::vector<Cut> cuts{{"nothing", {{0, count, 0, 0}}},
                              {"64 Ki values", equal_layers(count, 65536)},
                              {"as without hints", {}},
                              {"layers", gradients.layers}};
  for (const char* const grids : {"uniform", "both"}) {
    const Settings settings = parse_settings(
        {{"RINGPRESS_ADJUST_STEPS", "3"}, {"RINGPRESS_ADJUST_GRIDS", grids}}, nullptr);
    const auto family = make_level_family(settings);
    for (const Cut& cut : cuts) {
      const LeveledCall levels = find_levels(settings, gradients, cut.layers);
      const Measured ratio = compare(gradients, Parts(*family, levels).get());
      fmt::print("| {} | {} | {} | {} | {:.3f} | {:.3f} | {:.2f} |\n", gradients.name, grids,
                 cut.name, levels.size(), ratio.bytes, ratio.error, ratio.seconds);
    }
  }
}

}  // namespace ringpress::perf
