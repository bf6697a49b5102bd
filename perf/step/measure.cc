#include "perf/step/measure.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace ringpress::perf {
namespace {

constexpr std::size_t kStrategies = 4;

double slowest_step(const Session& session, Replay* replay, const Strategy& strategy, Group& exact,
                    Group& compressed, std::vector<std::string>* reasons = nullptr) {
  session.control().barrier();
  const double own = replay->run(strategy, exact, compressed, reasons);
  const std::vector<double> all = session.control().gather(std::vector<double>{own});
  return *std::max_element(all.begin(), all.end());
}

std::uint64_t compressed_calls(const Group& exact, const Group& compressed) {
  std::uint64_t calls = 0;
  for (const Group* group : {&exact, &compressed}) {
    const std::optional<ringpressStatistics_t> now = group->statistics();
    calls += now ? now->compressed_calls : 0;
  }
  return calls;
}

}  // namespace

double Measured::seconds() const {
  std::vector<double> values = steps;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<Setting> communicators_of(const std::string& codec, bool with_automatic) {
  std::vector<Setting> settings;
  for (std::size_t i = 0; i < kStrategies; ++i) {
    settings.push_back({"none", "none", "sra"});
    settings.push_back({"codec", codec, "sra"});
  }
  if (with_automatic) settings.push_back({"auto", "auto", "sra"});
  return settings;
}

std::vector<Measured> measure(const Session& session, const espresso::Job& job,
                              const std::vector<Strategy>& strategies, int warmup, int steps) {
  Replay replay(job);
  std::vector<Measured> measured(strategies.size());
  for (int step = -warmup; step < steps; ++step) {
    for (std::size_t i = 0; i < strategies.size(); ++i) {
      Group& exact = session.measured(2 * i);
      Group& compressed = session.measured(2 * i + 1);
      const std::uint64_t before = compressed_calls(exact, compressed);
      const double seconds = slowest_step(session, &replay, strategies[i], exact, compressed);
      if (step < 0) continue;
      measured[i].steps.push_back(seconds);
      measured[i].compressed_calls +=
          static_cast<double>(compressed_calls(exact, compressed) - before) / steps;
    }
  }
  return measured;
}

Automatic measure_automatic(const Session& session, const espresso::Job& job, int steps_before,
                            int steps) {
  Group& group = session.measured(2 * kStrategies);
  Replay replay(job);
  const Strategy strategy = {"automatic", std::vector<bool>(job.tensors.size(), true), 0};
  Automatic found;
  for (int step = -steps_before; step < steps; ++step) {
    std::vector<std::string> reasons;
    const double seconds = slowest_step(session, &replay, strategy, group, group, &reasons);
    if (step < 0) continue;
    found.measured.steps.push_back(seconds);
    for (const std::string& reason : reasons) ++found.calls[reason];
  }
  return found;
}

}  // namespace ringpress::perf
