// What error feedback does over many calls: how soon it is back after calls that are not those of
// the step, and how wrong the sum of all calls is.
#ifndef TESTS_SUPPORT_FEEDBACK_RUNS_H_
#define TESTS_SUPPORT_FEEDBACK_RUNS_H_

#include <cmath>
#include <cstddef>
#include <list>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/communicator_ranks.h"
#include "tests/support/interruption.h"
#include "tests/support/random_tensor.h"

namespace ringpress::testing {

/// On two ranks of this process, over the transports of host memory (door C).
inline std::size_t resumed_on_host(const Interruption& tried) {
  std::vector<std::size_t> resumed(2);
  const auto outcomes = run_communicators(
      2, {{"RINGPRESS_CODEC", "q2"}, {"RINGPRESS_MIN_BYTES", "0"}},
      [&](Communicator* communicator) {
        std::map<char, std::vector<float>> values;
        resumed[static_cast<std::size_t>(communicator->rank())] = resumed_at(tried, [&](char call) {
          std::vector<float>& sent = values[call];
          if (sent.empty()) sent = random_gradient(elements_of(call), 1, communicator->rank());
          std::vector<float> result(sent.size());
          const Status status = communicator->all_reduce(sent.data(), result.data(), sent.size(),
                                                         DType::kFloat32, {});
          if (!status.is_ok()) throw std::runtime_error(status.message());
          return result;
        });
        return Status::ok();
      });
  if (!failures_of(outcomes).empty()) throw std::runtime_error(failures_of(outcomes));
  if (resumed[0] != resumed[1]) throw std::runtime_error("ranks have residuals at different calls");
  return resumed[0];
}

/// Something small that is reduced now and then, such as a value that is logged.
struct LoggedValue {
  std::size_t every = 0;  // So many calls; 0: never.
  bool is_anew = false;   // In a new buffer each time.
};

/// How far sums over many all-reduces of the same gradients, which differ by rank, are from what
/// they should be, over the norm of one of them: after each of `calls`, which ascend.
inline std::vector<double> cumulative_errors(const std::string& codec,
                                             std::span<const std::size_t> calls,
                                             const LoggedValue& logged = {}) {
  constexpr std::size_t kCount = 100 * 120;
  constexpr int kRanks = 3;
  std::vector<double> exact(kCount), sum(kCount), found;
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto input = random_gradient(kCount, 1, rank);
    for (std::size_t i = 0; i < kCount; ++i) exact[i] += double{input[i]} / kRanks;
  }
  const auto note = [&](std::size_t call) {
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      error += std::pow(sum[i] - static_cast<double>(call) * exact[i], 2);
      norm += exact[i] * exact[i];
    }
    found.push_back(std::sqrt(error / norm));
  };
  const auto outcomes = run_communicators(
      kRanks, {{"RINGPRESS_CODEC", codec}, {"RINGPRESS_MIN_BYTES", "0"}},
      [&](Communicator* communicator) -> Status {
        const auto input = random_gradient(kCount, 1, communicator->rank());
        const Layer matrix{0, kCount, 100, 120, false};
        RINGPRESS_RETURN_IF_ERROR(
            communicator->set_layers({kCount, DType::kFloat32, nullptr}, std::span(&matrix, 1)));
        std::vector<float> result(kCount);
        std::list<std::vector<float>> values(1, std::vector<float>(kCount / 100, 1.0F));
        for (std::size_t call = 1; call <= calls.back(); ++call) {
          RINGPRESS_RETURN_IF_ERROR(communicator->all_reduce(input.data(), result.data(), kCount,
                                                             DType::kFloat32, {ReduceOp::kAvg}));
          if (logged.every != 0 && call % logged.every == 0) {
            if (logged.is_anew) values.push_back(values.back());
            float* const value = values.back().data();
            RINGPRESS_RETURN_IF_ERROR(communicator->all_reduce(value, value, values.back().size(),
                                                               DType::kFloat32, {ReduceOp::kAvg}));
          }
          if (communicator->rank() != 0) continue;
          for (std::size_t i = 0; i < kCount; ++i) sum[i] += double{result[i]};
          if (call == calls[found.size()]) note(call);
        }
        return Status::ok();
      });
  if (!failures_of(outcomes).empty()) throw std::runtime_error(failures_of(outcomes));
  return found;
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_FEEDBACK_RUNS_H_
