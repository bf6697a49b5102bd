// Ranks that are told of the same operations at moments of their own decide alike of every piece,
// and of the tensor that it is of. A model of NCCL's progress threads, without a network.
#include "nccl_plugin/plugin/coll_decisions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "tests/support/collnet_operations.h"
#include "tests/support/profiled_operation.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

using testing::Layout;
using testing::ProfiledOperation;

// Communicators, by number. The last rank is in the first three alone.
constexpr std::size_t kParent = 0;
constexpr std::size_t kSharing = 1;     // Split off from the parent, with its resources.
constexpr std::size_t kOther = 2;       // Has a progress thread of its own.
constexpr std::size_t kSmaller = 3;     // Split off from the parent, of fewer nodes;
constexpr std::size_t kSecond = 4;      // and another one of as many.
constexpr std::size_t kGrandchild = 5;  // Split off from kSmaller, with its resources.
constexpr std::size_t kComms = 6;
constexpr std::size_t kNetworks = 4;  // CollNet communicators.
constexpr std::size_t kThreads = 2;
constexpr std::size_t kMostChannels = 32;
constexpr std::size_t kNetworkOf[kComms] = {0, 0, 1, 2, 3, 2};

std::size_t thread_of(std::size_t comm) {
  return comm == kOther ? 1 : 0;
}

struct Operation {
  std::size_t comm = 0;
  Layout layout;
  std::size_t number = 0;
  bool is_told = true;  // Else the profiler is told of a step too many.
};

/// What all ranks launch, in this order.
std::vector<Operation> random_program(std::mt19937_64* random, int size) {
  std::vector<Operation> program(6 + (*random)() % 10);
  std::vector<std::uint64_t> sequences(kComms);
  for (std::size_t i = 0; i < program.size(); ++i) {
    Operation& operation = program[i];
    operation.number = i + 1;
    operation.comm = (*random)() % (size > 2 ? kComms : 3);
    operation.is_told = (*random)() % 16 != 0;
    operation.layout.channels = 1 + (*random)() % ((*random)() % 2 == 0 ? 12 : kMostChannels);
    operation.layout.chunk_bytes = std::size_t{32768} << (*random)() % 2;
    const std::size_t loop = operation.layout.channels * operation.layout.chunk_bytes / 4;
    operation.layout.event.count = 1 + (*random)() % (4 * loop);
    operation.layout.event.element_bytes = 4;
    // A replay stands still.
    if ((*random)() % 8 != 0) ++sequences[operation.comm];
    operation.layout.event.sequence = sequences[operation.comm];
  }
  return program;
}

/// A decision, and which operation's tensor it was taken for.
struct Decided {
  CollDecision decision;
  std::size_t piece_of = 0;

  bool operator==(const Decided& other) const {
    const CollDecision& a = decision;
    const CollDecision& b = other.decision;
    return piece_of == other.piece_of && a.worker == b.worker &&
           a.starts_tensor == b.starts_tensor && a.first == b.first &&
           a.valid_count == b.valid_count && a.clears_staging == b.clears_staging &&
           a.tensor.known == b.tensor.known && a.tensor.count == b.tensor.count &&
           a.tensor.whole_count == b.tensor.whole_count && a.tensor.layout == b.tensor.layout &&
           a.tensor.dtype == b.tensor.dtype && a.tensor.op == b.tensor.op &&
           (a.tensor.address == nullptr) == (b.tensor.address == nullptr);
  }
};

/// Its threads and communicators live on from program to program.
class Rank {
 public:
  Rank(std::uint64_t seed, bool is_last, ProfiledChannels profiled)
      : random_(seed), is_last_(is_last), told_channels_(profiled) {
    for (std::size_t comm = 0; comm < kComms; ++comm) {
      const int nodes = comm < kSmaller ? 4 : 2;  // None but profiled_part() looks at it.
      books_.push_back(std::make_unique<TensorRegistry>(nodes, nodes, profiled));
    }
  }

  /// On CollNet communicators that have just been made.
  void run(const std::vector<Operation>& program) {
    for (Network& network : networks_) {
      network.decisions = CollDecisions(TensorPart::kWhole);
      network.decided.clear();
    }
    std::deque<Launched> launched[kThreads];
    std::size_t next = 0;
    for (;;) {
      const std::uint64_t event = random_() % 8;
      if (event < 2) launch_next(program, &next, launched);
      if (event == 2) append(&launched[random_() % kThreads]);
      if (event > 2) progress(&networks_[random_() % kNetworks]);
      const bool is_idle = std::all_of(networks_.begin(), networks_.end(),
                                       [](const Network& n) { return n.running.empty(); });
      if (next == program.size() && launched[0].empty() && launched[1].empty() && is_idle) return;
    }
  }
  const std::vector<Decided>& decided(std::size_t network) const {
    return networks_[network].decided;
  }

 private:
  struct Launched {
    Operation operation;
    std::uint64_t tensor = 0;
  };
  struct Running {
    Operation operation;
    ProfiledOperation profiled;
  };
  struct Network {
    CollDecisions decisions;
    std::deque<Running> running;
    std::vector<Decided> decided;
  };
  static const void* address_of(const Operation& operation) {
    return reinterpret_cast<const void*>(operation.number);
  }

  void launch_next(const std::vector<Operation>& program, std::size_t* next,
                   std::deque<Launched>* launched) {
    if (*next == program.size()) return;
    const Operation& operation = program[(*next)++];
    if (is_last_ && operation.comm >= kSmaller) return;
    TensorEvent event = operation.layout.event;
    event.address = address_of(operation);
    launched[thread_of(operation.comm)].push_back(
        {operation, books_[operation.comm]->start_tensor(event)});
  }
  void append(std::deque<Launched>* launched) {
    if (launched->empty()) return;
    const auto [operation, tensor] = launched->front();
    launched->pop_front();
    const std::size_t thread = thread_of(operation.comm);
    Layout layout = operation.layout;
    ProfiledOperation profiled(&pools_[thread], layout, operation.is_told ? 0 : 1);
    profiled.tell_as(tensor, books_[operation.comm].get(), &profiled_[thread]);
    networks_[kNetworkOf[operation.comm]].running.push_back({operation, std::move(profiled)});
  }
  void progress(Network* network) {
    if (network->running.empty()) return;
    Running& running = network->running.front();
    ProfiledOperation& profiled = running.profiled;
    const std::size_t step = profiled.taken() / profiled.groups();
    const std::size_t group = profiled.taken() % profiled.groups();
    const std::size_t bytes =
        profiled.channels_of(profiled.taken()) * profiled.layout().chunk_bytes;
    // NCCL's staging memory: eight steps of as many channels as there can be.
    const std::size_t at = step % 8 * kStepBytes +
                           group * testing::kProxyGroupChannels * profiled.layout().chunk_bytes;
    CollCall call;
    call.send = reinterpret_cast<void*>(kRegion + at);
    call.receive = reinterpret_cast<void*>(2 * kRegion + at);
    call.count = bytes / 4;
    call.address = profiled.next_request();
    ProfiledTensors& tensors = profiled_[thread_of(running.operation.comm)];
    Decided decided{network->decisions.decide(call, &tensors), running.operation.number};
    check(running.operation, decided.decision);
    network->decided.push_back(decided);
    if (profiled.taken() == profiled.piece_count()) network->running.pop_front();
  }
  /// Known if profiled, and never for another operation's.
  void check(const Operation& operation, const CollDecision& decision) const {
    const PiecewiseTensor& tensor = decision.tensor;
    const bool may_be_any =
        told_channels_ == ProfiledChannels::kFirst && operation.layout.channels >= kFewChannels;
    if (may_be_any && (tensor.address == nullptr || !operation.is_told)) return;
    if (!operation.is_told) {
      EXPECT_EQ(tensor.address, nullptr);
      return;
    }
    EXPECT_EQ(tensor.address, address_of(operation));
    EXPECT_EQ(tensor.whole_count, operation.layout.event.count);
    EXPECT_TRUE(tensor.known == PiecewiseTensor::Known::kTensor ||
                tensor.known == PiecewiseTensor::Known::kExtent);
  }

  static constexpr std::uintptr_t kRegion = std::uintptr_t{1} << 30;
  static constexpr std::size_t kStepBytes = kMostChannels * 65536;
  static constexpr std::size_t kFewChannels = 8;  // Fewer are known by the first piece.

  std::mt19937_64 random_;
  const bool is_last_;
  const ProfiledChannels told_channels_;
  std::vector<std::unique_ptr<TensorRegistry>> books_;
  std::array<testing::ProxyArgsPool, kThreads> pools_;
  std::array<ProfiledTensors, kThreads> profiled_;
  std::array<Network, kNetworks> networks_;
};

/// An operation of one channel on a CollNet communicator of its own, piece by piece.
class Pieces {
 public:
  static constexpr std::size_t kCount = 8192;  // Elements of a full piece.

  /// A tensor of so many elements. `steps_too_many`: then it is not known.
  void begin(std::size_t count, std::size_t steps_too_many = 0) {
    ++sequence_;
    operation_.emplace(&pool_, Layout{{&pool_, count, 4, sequence_, tag()}, 1, 4 * kCount},
                       steps_too_many);
    operation_->tell(&book_, &profiled_);
  }
  /// What the program calls it.
  std::uint64_t tag() const { return 100 + sequence_; }
  /// Its next piece, in a slot of the staging memory.
  CollDecision decide(std::uintptr_t slot = 0) {
    CollCall call;
    call.send = reinterpret_cast<void*>((std::uintptr_t{1} << 30) + slot * 4 * kCount);
    call.receive = reinterpret_cast<void*>((std::uintptr_t{2} << 30) + slot * 4 * kCount);
    call.count = kCount;
    call.address = operation_->next_request();
    return decisions_.decide(call, &profiled_);
  }

 private:
  testing::ProxyArgsPool pool_;
  TensorRegistry book_{2, 2};
  ProfiledTensors profiled_;
  CollDecisions decisions_{TensorPart::kWhole};
  std::optional<ProfiledOperation> operation_;
  std::uint64_t sequence_ = 0;
};

// Each worker has every other piece, one behind the other, from the first worker on.
TEST(CollDecisions, GiveEachLaneItsPieces) {
  constexpr std::size_t kFull = Pieces::kCount;
  Pieces pieces;
  for (int tensor = 0; tensor < 3; ++tensor) {
    pieces.begin(4 * kFull + 10);
    for (std::size_t piece = 0; piece < 5; ++piece) {
      const CollDecision decision = pieces.decide(piece);
      EXPECT_EQ(decision.worker, piece % 2);
      EXPECT_EQ(decision.starts_tensor, piece < 2);
      EXPECT_EQ(decision.first, piece / 2 * kFull);
      EXPECT_EQ(decision.valid_count, piece < 4 ? kFull : 10);
      EXPECT_EQ(decision.tag, pieces.tag());
      if (piece >= 2) continue;
      EXPECT_EQ(decision.tensor.count, piece == 0 ? 2 * kFull + 10 : 2 * kFull);
    }
  }
}

// What lies behind a piece that is not known is zero only where the call before it has cleared it.
TEST(CollDecisions, KnowWhetherStagingMemoryIsClear) {
  using Known = PiecewiseTensor::Known;
  Pieces pieces;
  pieces.begin(Pieces::kCount);
  CollDecision decision = pieces.decide(0);
  EXPECT_EQ(decision.tensor.known, Known::kTensor);
  EXPECT_FALSE(decision.clears_staging);
  pieces.begin(Pieces::kCount, 1);
  decision = pieces.decide(0);
  EXPECT_EQ(decision.tensor.known, Known::kNothing) << "the tensor before lies there";
  EXPECT_TRUE(decision.clears_staging);
  pieces.begin(Pieces::kCount, 1);
  EXPECT_EQ(pieces.decide(0).tensor.known, Known::kPadded);
  pieces.begin(Pieces::kCount, 1);
  EXPECT_EQ(pieces.decide(1).tensor.known, Known::kPadded) << "nothing was there before";
  // From then on what is known is cleared, too.
  pieces.begin(Pieces::kCount);
  decision = pieces.decide(0);
  EXPECT_EQ(decision.tensor.known, Known::kTensor);
  EXPECT_TRUE(decision.clears_staging);
  pieces.begin(Pieces::kCount, 1);
  EXPECT_EQ(pieces.decide(0).tensor.known, Known::kPadded);
}

// COLLNET_TEST_INTERLEAVINGS=1000000 makes it long.
TEST(CollDecisions, AreEqualWheneverNcclTellsOfOperations) {
  const char* const wanted = std::getenv("COLLNET_TEST_INTERLEAVINGS");
  const std::size_t interleavings = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 10000;
  std::mt19937_64 random(1);
  std::size_t pieces = 0;
  std::size_t unknown = 0;
  std::vector<std::vector<std::unique_ptr<Rank>>> jobs;
  for (const ProfiledChannels profiled : {ProfiledChannels::kAll, ProfiledChannels::kFirst}) {
    for (int size = 2; size <= 4; ++size) {
      jobs.emplace_back();
      for (int rank = 0; rank < size; ++rank) {
        const bool is_last = rank > 1 && rank == size - 1;
        jobs.back().push_back(std::make_unique<Rank>(random(), is_last, profiled));
      }
    }
  }
  for (std::size_t run = 0; run < interleavings && !HasFailure(); ++run) {
    const auto& ranks = jobs[run % jobs.size()];
    const int size = static_cast<int>(ranks.size());
    const auto program = random_program(&random, size);
    for (const auto& rank : ranks) rank->run(program);
    for (std::size_t network = 0; network < kNetworks; ++network) {
      const auto& first = ranks[0]->decided(network);
      pieces += first.size();
      for (const Decided& decided : first) unknown += decided.decision.tensor.address == nullptr;
      const std::size_t members = ranks.size() - (network >= 2 && size > 2 ? 1 : 0);
      for (std::size_t rank = 1; rank < members; ++rank) {
        EXPECT_EQ(first, ranks[rank]->decided(network)) << "run " << run << ", rank " << rank;
      }
    }
  }
  EXPECT_GT(pieces, 10 * interleavings);
  EXPECT_GT(unknown, interleavings / 4);
}

}  // namespace
}  // namespace ringpress::nccl_plugin::plugin
