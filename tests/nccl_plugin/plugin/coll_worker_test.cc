// Two workers that sleep and wake each other: none may be left asleep with a call while the other
// waits for what that call brings.
#include "nccl_plugin/plugin/coll_worker.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "ringpress/internal/call_options.h"
#include "ringpress/internal/transport.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

#ifdef RINGPRESS_SANITIZED
constexpr int kPairs = 1000;
#else
constexpr int kPairs = 2500;
#endif

constexpr std::chrono::seconds kPatience{5};

/// How many calls each of two workers has begun.
using Begun = std::array<std::atomic<long>, 2>;

/// A communicator that a worker may have: only `run` and `abort` are left to say.
class LaneCommunicator : public Communicator, public PiecewiseAllReduce {
 public:
  PiecewiseAllReduce& pieces() override { return *this; }
  Status start(const PiecewiseTensor&) override { return Status::ok(); }
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void set_timeout(std::chrono::milliseconds) override {}
  Status all_reduce(const void*, void*, std::size_t, DType, Reduction) override { return none(); }
  Status reduce_scatter(const void*, void*, std::size_t, DType, Reduction) override {
    return none();
  }
  Status all_gather(const void*, void*, std::size_t, DType) override { return none(); }
  Status broadcast(const void*, void*, std::size_t, DType, int) override { return none(); }
  Status reduce(const void*, void*, std::size_t, DType, Reduction, int) override { return none(); }
  Status exchange(std::span<const Transfer>) override { return none(); }
  Status set_layers(const HintedCall&, std::span<const Layer>) override { return none(); }
  Status flush_lazy() override { return none(); }
  Status finalize() override { return Status::ok(); }
  void abort(End) override {}
  Status check() override { return Status::ok(); }
  Status failure() const override { return Status::ok(); }
  std::optional<Statistics> statistics_at(ReportTime) const override { return Statistics(); }

 private:
  static Status none() { return {Code::kInternal, "a worker does not call this"}; }
};

/// Its n-th call ends when the other's n-th has begun, as calls of other nodes may ask for.
class WaitingCommunicator final : public LaneCommunicator {
 public:
  WaitingCommunicator(Begun* begun, std::size_t worker) : begun_(*begun), worker_(worker) {}
  Status run(const void*, void*, std::size_t, std::size_t) override {
    const long call = ++begun_[worker_];
    const Deadline end = Clock::now() + kPatience;
    while (begun_[1 - worker_] < call) {
      if (Clock::now() > end) return {Code::kTimeout, "the other worker sleeps"};
      std::this_thread::yield();
    }
    return Status::ok();
  }

 private:
  Begun& begun_;
  const std::size_t worker_;
};

/// Its calls go through, the first one when it hears that the worker gives up.
class LateCommunicator final : public LaneCommunicator {
 public:
  explicit LateCommunicator(std::atomic<long>* begun) : begun_(*begun) {}
  Status run(const void*, void*, std::size_t, std::size_t) override {
    if (++begun_ == 1) aborted_.wait(false);
    return Status::ok();
  }
  void abort(End) override {
    aborted_.store(true);
    aborted_.notify_all();
  }

 private:
  std::atomic<long>& begun_;
  std::atomic<bool> aborted_{false};
};

/// Notes what the program calls the tensors.
class NotingCommunicator final : public LaneCommunicator {
 public:
  using Tags = std::vector<std::uint64_t>;
  NotingCommunicator(Tags* started, Tags* run) : started_(*started), run_(*run) {}
  Status start(const PiecewiseTensor&) override { return note(&started_); }
  Status run(const void*, void*, std::size_t, std::size_t) override { return note(&run_); }

 private:
  static Status note(Tags* tags) {
    tags->push_back(CallsWithOptions::current()->tag);
    return Status::ok();
  }

  Tags& started_;
  Tags& run_;
};

/// Has no memory for its second call.
class FailingCommunicator final : public LaneCommunicator {
 public:
  explicit FailingCommunicator(std::atomic<int>* aborted) : aborted_(*aborted) {}
  Status start(const PiecewiseTensor&) override {
    if (++calls_ == 2) throw std::bad_alloc();
    return Status::ok();
  }
  Status run(const void*, void*, std::size_t, std::size_t) override { return Status::ok(); }
  void abort(End) override { ++aborted_; }

 private:
  std::atomic<int>& aborted_;
  int calls_ = 0;
};

/// Gaps about as long as a worker stays awake: so that calls come while one falls asleep, or wakes.
TEST(CollWorker, WakesItsCompanionInWhateverStateItIs) {
  Begun begun{};
  CollWorker first(std::make_unique<WaitingCommunicator>(&begun, 0));
  CollWorker second(std::make_unique<WaitingCommunicator>(&begun, 1));
  first.start(&second);
  second.start(&first);
  const std::array<CollWorker*, 2> workers = {&first, &second};
  std::array<CollRequest, 2> requests;
  std::mt19937 random(1);
  for (int pair = 0; pair < kPairs; ++pair) {
    const Deadline next = Clock::now() + std::chrono::microseconds(195 + random() % 25);
    while (Clock::now() < next) std::this_thread::yield();
    const std::size_t earlier = random() % 2;
    workers[earlier]->append(&requests[earlier]);
    workers[1 - earlier]->append(&requests[1 - earlier]);
    for (const CollRequest& request : requests) {
      while (request.state.load() == CollRequest::State::kWaiting) std::this_thread::yield();
      ASSERT_EQ(request.state.load(), CollRequest::State::kDone) << "pair " << pair;
    }
  }
  first.stop();
  second.stop();
}

TEST(CollWorker, HandsOnWhatTheProgramCallsATensor) {
  NotingCommunicator::Tags started, run;
  CollWorker worker(std::make_unique<NotingCommunicator>(&started, &run));
  Begun none{};
  CollWorker companion(std::make_unique<WaitingCommunicator>(&none, 1));
  worker.start(&companion);
  companion.start(&worker);
  std::array<CollRequest, 3> requests;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].decision.starts_tensor = i != 1;
    requests[i].decision.tag = i == 2 ? 0 : 7;
    worker.append(&requests[i]);
  }
  for (const CollRequest& request : requests) {
    while (request.state.load() == CollRequest::State::kWaiting) std::this_thread::yield();
  }
  worker.stop();
  companion.stop();
  EXPECT_EQ(started, (NotingCommunicator::Tags{7, 0}));
  EXPECT_EQ(run, (NotingCommunicator::Tags{7, 7, 0}));
}

/// The other nodes know of no failure here until they are told.
TEST(CollWorker, TellsTheOtherNodesOfAFailureOfItsOwn) {
  std::atomic<int> aborted{0};
  CollWorker worker(std::make_unique<FailingCommunicator>(&aborted));
  Begun none{};
  CollWorker companion(std::make_unique<WaitingCommunicator>(&none, 1));
  worker.start(&companion);
  companion.start(&worker);
  std::array<CollRequest, 3> requests;
  for (CollRequest& request : requests) worker.append(&request);
  for (const CollRequest& request : requests) {
    while (request.state.load() == CollRequest::State::kWaiting) std::this_thread::yield();
  }
  EXPECT_EQ(requests[0].state.load(), CollRequest::State::kDone);
  EXPECT_EQ(requests[1].state.load(), CollRequest::State::kFailed);
  EXPECT_EQ(requests[2].state.load(), CollRequest::State::kFailed);
  EXPECT_EQ(worker.failure().code(), Code::kSystem);
  EXPECT_EQ(aborted.load(), 1);
  worker.stop();
  companion.stop();
}

/// Else whoever goes on calling while a communicator is closed keeps it from closing.
TEST(CollWorker, BeginsNoCallOnceItIsToldToStop) {
  std::atomic<long> begun{0};
  CollWorker worker(std::make_unique<LateCommunicator>(&begun));
  Begun none{};
  CollWorker companion(std::make_unique<WaitingCommunicator>(&none, 1));
  worker.start(&companion);
  companion.start(&worker);
  std::array<CollRequest, 3> requests;
  for (CollRequest& request : requests) worker.append(&request);
  while (begun == 0) std::this_thread::yield();
  worker.stop();
  companion.stop();
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(requests[1].state.load(), CollRequest::State::kWaiting);
}

}  // namespace
}  // namespace ringpress::nccl_plugin::plugin
