#include "ring/factory.h"

#include <algorithm>

#include "ring/collective/ring.h"
#include "ring/collective/sra.h"
#include "ringpress/internal/algorithms.h"

namespace ringpress::ring {
namespace {

struct Runner {
  Algorithm algorithm;
  std::unique_ptr<Collective> (*make)(std::vector<int> ring_order);
};

/// The class that does what the row of kAlgorithms says.
constexpr Runner kRunners[] = {
    {Algorithm::kSra,
     [](std::vector<int>) -> std::unique_ptr<Collective> {
       return std::make_unique<ScatterReduceAllGather>();
     }},
    {Algorithm::kRing,
     [](std::vector<int> order) -> std::unique_ptr<Collective> {
       return std::make_unique<Ring>(std::move(order));
     }},
};

constexpr const Runner* find_runner(Algorithm algorithm) {
  const auto* const found =
      std::find_if(std::begin(kRunners), std::end(kRunners),
                   [algorithm](const Runner& runner) { return runner.algorithm == algorithm; });
  return found == std::end(kRunners) ? nullptr : found;
}

static_assert(std::all_of(std::begin(kAlgorithms), std::end(kAlgorithms),
                          [](const AlgorithmTraits& traits) {
                            return traits.runs_on_mesh ==
                                   (find_runner(traits.algorithm) != nullptr);
                          }),
              "each algorithm that a mesh runs has its runner");

}  // namespace

std::unique_ptr<Collective> make_collective(Algorithm algorithm, std::vector<int> ring_order) {
  const Runner* const runner = find_runner(algorithm);
  RINGPRESS_EXPECTS(runner != nullptr, "no mesh runs this algorithm");
  return runner->make(std::move(ring_order));
}

Collectives::Collectives(const std::vector<int>& ring_order) {
  for (const Runner& runner : kRunners) all_.push_back(runner.make(ring_order));
}

const Collective& Collectives::of(Algorithm algorithm) const {
  const auto found = std::find_if(all_.begin(), all_.end(), [algorithm](const auto& collective) {
    return collective->algorithm() == algorithm;
  });
  RINGPRESS_EXPECTS(found != all_.end(), "no mesh runs this algorithm");
  return **found;
}

}  // namespace ringpress::ring
