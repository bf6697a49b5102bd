// What a short call takes.
#ifndef PERF_TUNING_NANOSECONDS_H_
#define PERF_TUNING_NANOSECONDS_H_

#include <algorithm>
#include <chrono>
#include <vector>

namespace ringpress {

inline constexpr int kRounds = 15;

/// The median over kRounds rounds of so many calls each.
template <typename Call>
double nanoseconds_of(Call&& call, int calls) {
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
    rounds.push_back(taken.count() / calls);
  }
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

}  // namespace ringpress

#endif  // PERF_TUNING_NANOSECONDS_H_
