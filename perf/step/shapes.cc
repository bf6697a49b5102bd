#include "perf/step/shapes.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <random>
#include <thread>
#include <utility>

#include "nccl_plugin/command/terminal/error.h"
#include "perf/all_reduce/group.h"

namespace ringpress::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr float kSpread = 1e-3F;
constexpr std::chrono::microseconds kBetweenLooks{50};

constexpr std::pair<const char*, Shape> kShapes[] = {
    {"waits", Shape::kWaits},
    {"end", Shape::kEnd},
    {"group", Shape::kGroup},
    {"thread", Shape::kThread},
    {"nonblocking", Shape::kNonblocking},
    {"nonblocking-waits", Shape::kNonblockingWaits},
};
constexpr std::pair<const char*, Compute> kComputes[] = {
    {"sleeps", Compute::kSleeps},
    {"burns", Compute::kBurns},
};

template <typename Names>
auto value_of(const Names& names, const std::string& name) {
  for (const auto& [known, value] : names) {
    if (name == known) return value;
  }
  throw terminal::Error(name + " is not known");
}

template <typename Names>
std::vector<std::string> names_of(const Names& names) {
  std::vector<std::string> all;
  for (const auto& [name, value] : names) all.emplace_back(name);
  return all;
}

double used_of_a_core() {
  timespec used = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace

Shape shape_of(const std::string& name) {
  return value_of(kShapes, name);
}

Compute compute_of(const std::string& name) {
  return value_of(kComputes, name);
}

std::vector<std::string> shape_names() {
  return names_of(kShapes);
}

std::vector<std::string> compute_names() {
  return names_of(kComputes);
}

Program::Program(const ProgramParts& parts, ncclComm_t comm) : parts_(parts), comm_(comm) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0, kSpread);
  std::vector<float> values(1 << 16);
  for (float& value : values) value = normal(generator);
  for (const std::size_t bytes : parts.tensor_bytes) {
    DeviceBuffer& buffer = tensors_.emplace_back(bytes);
    for (std::size_t at = 0; at < bytes; at += values.size() * sizeof(float)) {
      buffer.write(at, values.data(), std::min(values.size() * sizeof(float), bytes - at));
    }
  }
}

bool Program::is_nonblocking(Shape shape) {
  return shape == Shape::kNonblocking || shape == Shape::kNonblockingWaits;
}

double Program::run() {
  const Clock::time_point begin = Clock::now();
  compute(parts_.forward_seconds);
  switch (parts_.shape) {
    case Shape::kWaits:
    case Shape::kNonblockingWaits:
      reduce_when_computed();
      break;
    case Shape::kEnd:
    case Shape::kGroup:
      reduce_all();
      break;
    case Shape::kThread:
      reduce_aside();
      break;
    case Shape::kNonblocking:
      reduce_without_blocking();
      break;
  }
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// What burns does so for so long on a core, however many share it: that is what the work takes.
void Program::compute(double seconds) const {
  if (seconds <= 0) return;
  switch (parts_.compute) {
    case Compute::kSleeps:
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      return;
    case Compute::kBurns:
      const double end = used_of_a_core() + seconds;
      while (used_of_a_core() < end) {
      }
      return;
  }
}

void Program::reduce(std::size_t tensor) {
  const ncclResult_t result = ncclAllReduce(tensors_[tensor].data(), tensors_[tensor].data(),
                                            parts_.tensor_bytes[tensor] / sizeof(float),
                                            ncclFloat32, ncclAvg, comm_, stream_.handle());
  if (result == ncclInProgress) return;
  require(result, "ncclAllReduce", comm_);
}

void Program::await() const {
  ncclResult_t state = ncclInProgress;
  for (;;) {
    require(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError", comm_);
    if (state != ncclInProgress) break;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  require(state, "a nonblocking call", comm_);
}

void Program::reduce_when_computed() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    compute(parts_.backward_seconds);
    reduce(i);
    if (is_nonblocking(parts_.shape)) await();
  }
}

void Program::reduce_all() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) compute(parts_.backward_seconds);
  if (parts_.shape == Shape::kGroup) require(ncclGroupStart(), "ncclGroupStart");
  for (std::size_t i = 0; i < tensors_.size(); ++i) reduce(i);
  if (parts_.shape == Shape::kGroup) require(ncclGroupEnd(), "ncclGroupEnd", comm_);
}

void Program::reduce_aside() {
  std::atomic<std::size_t> ready{0};
  std::thread backward([&] {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      compute(parts_.backward_seconds);
      ready.fetch_add(1);
      ready.notify_one();
    }
  });
  try {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      for (std::size_t now = ready; now <= i; now = ready) ready.wait(now);
      reduce(i);
    }
  } catch (...) {
    backward.join();
    throw;
  }
  backward.join();
}

void Program::reduce_without_blocking() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    compute(parts_.backward_seconds);
    if (i > 0) await();  // A communicator has one call under way.
    reduce(i);
  }
  await();
}

}  // namespace ringpress::perf
