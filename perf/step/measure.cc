#include "perf/step/measure.h"

#include <algorithm>

namespace ringpress::perf {
namespace {

constexpr std::size_t kStrategies = 4;

double slowest_step(const Session& session, Replay* replay, const Strategy& strategy, Group& exact,
                    Group& compressed) {
  session.control().barrier();
  const double own = replay->run(strategy, exact, compressed);
  const std::vector<double> all = session.control().gather(std::vector<double>{own});
  return *std::max_element(all.begin(), all.end());
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
      const double seconds = slowest_step(session, &replay, strategies[i], session.measured(2 * i),
                                          session.measured(2 * i + 1));
      if (step >= 0) measured[i].steps.push_back(seconds);
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
    const double seconds = slowest_step(session, &replay, strategy, group, group);
    if (step >= 0) found.measured.steps.push_back(seconds);
  }
  std::vector<std::string> reasons;
  session.control().barrier();
  replay.run(strategy, group, group, &reasons);
  for (const std::string& reason : reasons) ++found.calls[reason];
  return found;
}

}  // namespace ringpress::perf
