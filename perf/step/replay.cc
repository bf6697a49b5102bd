#include "perf/step/replay.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

namespace ringpress::perf {
namespace {

using Clock = std::chrono::steady_clock;
using espresso::Choice;
using espresso::Job;

constexpr float kSpread = 1e-3f;

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Strategy strategy_of(const Job& job, std::string name, std::vector<bool> compresses) {
  std::vector<Choice> choices;
  for (const bool is_compressed : compresses) choices.push_back({is_compressed ? 1U : 0U});
  const double seconds = predict(job, espresso::call_options(), choices).seconds;
  return {std::move(name), std::move(compresses), seconds};
}

std::vector<bool> largest_half(const Job& job) {
  std::vector<std::size_t> order(job.tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return job.tensors[a].bytes > job.tensors[b].bytes;
  });
  std::size_t all = 0, taken = 0;
  for (const espresso::Tensor& tensor : job.tensors) all += tensor.bytes;
  std::vector<bool> compresses(order.size(), false);
  for (const std::size_t tensor : order) {
    if (2 * taken >= all) break;
    compresses[tensor] = true;
    taken += job.tensors[tensor].bytes;
  }
  return compresses;
}

std::vector<bool> planned(const Job& job) {
  std::vector<bool> compresses;
  for (const Choice& choice : plan(job, espresso::call_options()).choices) {
    compresses.push_back(choice.option == 1);
  }
  return compresses;
}

/// Tells the thread that makes the calls how many gradients are ready.
class Backward {
 public:
  Backward(const std::vector<double>& ready_seconds, Clock::time_point begin)
      : thread_([this, &ready_seconds, begin] {
          for (const double seconds : ready_seconds) {
            std::this_thread::sleep_until(begin + duration_of(seconds));
            ready_.fetch_add(1);
            ready_.notify_one();
          }
        }) {}
  ~Backward() { thread_.join(); }

  void wait_for(std::size_t tensor) {
    for (std::size_t now = ready_; now <= tensor; now = ready_) ready_.wait(now);
  }

 private:
  std::atomic<std::size_t> ready_{0};
  std::thread thread_;
};

}  // namespace

std::vector<Strategy> strategies_of(const Job& job) {
  const std::size_t count = job.tensors.size();
  return {strategy_of(job, "nothing", std::vector<bool>(count, false)),
          strategy_of(job, "everything", std::vector<bool>(count, true)),
          strategy_of(job, "largest half", largest_half(job)),
          strategy_of(job, "plan", planned(job))};
}

Replay::Replay(const Job& job) : job_(job) {
  double now = job.forward_seconds;
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0, kSpread);
  std::vector<float> values(1 << 16);
  for (float& value : values) value = normal(generator);
  for (const espresso::Tensor& tensor : job.tensors) {
    ready_seconds_.push_back(now += tensor.backward_seconds);
    DeviceBuffer& buffer = tensors_.emplace_back(tensor.bytes);
    for (std::size_t at = 0; at < tensor.bytes; at += values.size() * sizeof(float)) {
      buffer.write(at, values.data(), std::min(values.size() * sizeof(float), tensor.bytes - at));
    }
  }
}

double Replay::run(const Strategy& strategy, Group& exact, Group& compressed,
                   std::vector<std::string>* reasons) {
  const Clock::time_point begin = Clock::now();
  Backward backward(ready_seconds_, begin);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    backward.wait_for(i);
    Group& group = strategy.compresses[i] ? compressed : exact;
    const std::size_t count = job_.tensors[i].bytes / sizeof(float);
    require(ncclAllReduce(tensors_[i].data(), tensors_[i].data(), count, ncclFloat32, ncclAvg,
                          group.handle(), stream_.handle()),
            "ncclAllReduce", group.handle());
    stream_.synchronize();
    if (reasons == nullptr) continue;
    const std::optional<ringpressStatistics_t> last = group.statistics();
    reasons->push_back(last ? last->reason : "");
  }
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace ringpress::perf
