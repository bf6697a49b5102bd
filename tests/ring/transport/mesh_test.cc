// Meshes that work: random traffic between threads and processes, over TCP, shared memory and both.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>

#include "tests/contract/transport_contract.h"
#include "tests/support/peer_group.h"

namespace ringpress::testing {
namespace {

struct Medium {
  const char* name;
  PeerKind kind;
  bool shared_memory;
  bool two_hosts;  // Odd and even ranks pretend to be on different hosts (processes only).
  ProgressThread progress_thread;
  bool is_encrypted = false;
};

OptionsFunction options_of(const Medium& medium) {
  return [medium](ring::MeshOptions& options) {
    options.shared_memory = medium.shared_memory;
    options.progress_thread = medium.progress_thread;
    options.is_encrypted = medium.is_encrypted;
    if (medium.two_hosts) setenv("NCCL_HOSTID", options.rank % 2 == 0 ? "even" : "odd", 1);
  };
}

/// One frame of a traffic plan that every rank derives from the same seed.
struct Planned {
  int from;
  int to;
  std::size_t bytes;
  bool view;
  bool staged;
};

std::vector<Planned> make_plan(unsigned seed, int size, int frames) {
  std::mt19937 engine(seed);
  const auto below = [&engine](unsigned limit) { return static_cast<int>(engine() % limit); };
  std::vector<Planned> plan;
  for (int i = 0; i < frames; ++i) {
    Planned frame{};
    frame.from = below(static_cast<unsigned>(size));
    frame.to = (frame.from + 1 + below(static_cast<unsigned>(size - 1))) % size;
    static constexpr std::size_t kSizes[] = {0, 1, 100, 4096, 16384, 16385, 70000, 300000, 2500000};
    const std::size_t base = kSizes[engine() % std::size(kSizes)];
    frame.bytes = base + (base > 0 ? engine() % 64 : 0);
    frame.view = engine() % 2 == 0;
    frame.staged = engine() % 2 == 0;
    plan.push_back(frame);
  }
  return plan;
}

std::byte byte_of(std::size_t frame, std::size_t offset) {
  return static_cast<std::byte>(frame * 31 + offset * 7 + (offset >> 8));
}

class Traffic {
 public:
  Traffic(Mesh& mesh, const std::vector<Planned>& plan) : mesh_(mesh), plan_(plan) {}

  std::string run() {
    receives_.resize(plan_.size());
    sends_.resize(plan_.size());
    for (std::size_t i = 0; i < plan_.size(); ++i) {
      if (!start(i)) return error_;
      // A window of transfers is under way at any time.
      if (i >= kWindow && !finish(i - kWindow)) return error_;
    }
    for (std::size_t i = plan_.size() - std::min(kWindow, plan_.size()); i < plan_.size(); ++i) {
      if (!finish(i)) return error_;
    }
    return "ok";
  }

 private:
  static constexpr std::size_t kWindow = 12;
  struct Pending {
    Request* request = nullptr;
    std::vector<std::byte> memory;
  };

  /// What the receiver says: of every other frame only a limit.
  FrameLength length_of(std::size_t i) const {
    const std::size_t bytes = plan_[i].bytes;
    return i % 2 == 0 ? FrameLength::exactly(bytes) : FrameLength::at_most(bytes + 100 * (i % 3));
  }

  bool failed(const Status& status) {
    error_ = to_text(status);
    return false;
  }

  bool start(std::size_t i) {
    const Planned& frame = plan_[i];
    const FrameLabel label = label_of(i);
    if (frame.to == mesh_.rank()) {
      receives_[i].memory.resize(frame.view ? 0 : frame.bytes);
      Result<Request*> request =
          frame.view
              ? mesh_.irecv_view(frame.from, length_of(i), label)
              : mesh_.irecv(frame.from, Buffer{receives_[i].memory.data(), frame.bytes}, label);
      if (!request.is_ok()) return failed(request.status());
      receives_[i].request = request.value();
    }
    if (frame.from == mesh_.rank()) {
      std::byte* memory = nullptr;
      if (frame.staged) {
        memory = mesh_.staging(i % (2 * kWindow), 3000000).value().data;
      } else {
        sends_[i].memory.resize(frame.bytes);
        memory = sends_[i].memory.data();
      }
      for (std::size_t k = 0; k < frame.bytes; ++k) memory[k] = byte_of(i, k);
      Result<Request*> request = mesh_.isend(frame.to, ConstBuffer(memory, frame.bytes), label);
      if (!request.is_ok()) return failed(request.status());
      sends_[i].request = request.value();
    }
    return true;
  }

  /// All receives before `i` are finished, so no peer waits for a view of ours.
  bool finish(std::size_t i) {
    const Planned& frame = plan_[i];
    if (receives_[i].request != nullptr) {
      Result<ConstBuffer> got = mesh_.wait(receives_[i].request);
      if (!got.is_ok()) return failed(got.status());
      if (frame.view && got.value().bytes != frame.bytes) {
        error_ = "frame " + std::to_string(i) + " has another length";
        return false;
      }
      const std::byte* data = frame.view ? got.value().data : receives_[i].memory.data();
      for (std::size_t k = 0; k < frame.bytes; ++k) {
        if (data[k] == byte_of(i, k)) continue;
        error_ = "frame " + std::to_string(i) + " differs at byte " + std::to_string(k);
        return false;
      }
      mesh_.release(receives_[i].request);
    }
    if (sends_[i].request != nullptr) {
      Result<ConstBuffer> sent = mesh_.wait(sends_[i].request);
      if (!sent.is_ok()) return failed(sent.status());
      mesh_.release(sends_[i].request);
      sends_[i].memory.clear();
    }
    return true;
  }

  Mesh& mesh_;
  const std::vector<Planned>& plan_;
  std::vector<Pending> receives_;
  std::vector<Pending> sends_;
  std::string error_;
};

class MeshTraffic : public ::testing::TestWithParam<Medium> {};

TEST_P(MeshTraffic, RandomFramesArriveWhole) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    const int size = seed == 1 ? 2 : 4;
    const std::vector<Planned> plan = make_plan(seed, size, 60);
    const auto reports = run_mesh_peers(GetParam().kind, size, options_of(GetParam()),
                                        [&](Mesh& mesh) { return Traffic(mesh, plan).run(); });
    for (const PeerReport& report : reports) EXPECT_EQ(report.text, "ok");
  }
}

/// A letter is the host of a rank.
TEST(MeshHosts, CountsTheRanksOfHostsThatAreAlike) {
  const std::vector<std::pair<std::string, int>> cases = {{"aaaa", 4}, {"abcd", 1}, {"aabb", 2},
                                                          {"abab", 0}, {"aaab", 0}, {"aabc", 0}};
  for (const auto& [hosts, expected] : cases) {
    const OptionsFunction options = [hosts = hosts](ring::MeshOptions& mesh) {
      setenv("NCCL_HOSTID", hosts.substr(static_cast<std::size_t>(mesh.rank), 1).c_str(), 1);
    };
    const auto reports =
        run_mesh_peers(PeerKind::kProcesses, static_cast<int>(hosts.size()), options,
                       [](Mesh& mesh) { return std::to_string(mesh.ranks_per_host()); });
    for (const PeerReport& report : reports) {
      EXPECT_EQ(report.text, std::to_string(expected)) << hosts;
    }
  }
}

TEST_P(MeshTraffic, ManySmallFramesBothWays) {
  const auto reports =
      run_mesh_peers(GetParam().kind, 3, options_of(GetParam()), [](Mesh& mesh) -> std::string {
        std::uint64_t sum = 0;
        for (std::uint64_t call = 0; call < 2000; ++call) {
          const std::uint64_t value = call * 3 + static_cast<std::uint64_t>(mesh.rank());
          const int next = (mesh.rank() + 1) % 3;
          const int previous = (mesh.rank() + 2) % 3;
          std::uint64_t got = 0;
          Request* receive =
              mesh.irecv(previous, Buffer{reinterpret_cast<std::byte*>(&got), 8}, label_of(call))
                  .value();
          Request* send = mesh.isend(next, ConstBuffer(&value, 8), label_of(call)).value();
          Result<ConstBuffer> result = mesh.wait(receive);
          if (!result.is_ok()) return to_text(result.status());
          result = mesh.wait(send);
          if (!result.is_ok()) return to_text(result.status());
          mesh.release(receive);
          mesh.release(send);
          sum += got;
        }
        return std::to_string(sum);
      });
  for (int rank = 0; rank < 3; ++rank) {
    const std::uint64_t previous = static_cast<std::uint64_t>((rank + 2) % 3);
    EXPECT_EQ(reports[static_cast<std::size_t>(rank)].text,
              std::to_string(3ull * 1999 * 2000 / 2 + 2000 * previous));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Media, MeshTraffic,
    ::testing::Values(
        Medium{"TcpThreads", PeerKind::kThreads, false, false, ProgressThread::kOff},
        Medium{"TcpThreadsWithProgressThread", PeerKind::kThreads, false, false,
               ProgressThread::kOn},
        Medium{"TcpProcesses", PeerKind::kProcesses, false, false, ProgressThread::kAuto},
        Medium{"EncryptedTcpThreads", PeerKind::kThreads, false, false, ProgressThread::kOn, true},
        Medium{"EncryptedTcpProcesses", PeerKind::kProcesses, false, false, ProgressThread::kOff,
               true},
        Medium{"ShmThreads", PeerKind::kThreads, true, false, ProgressThread::kOff},
        Medium{"ShmProcesses", PeerKind::kProcesses, true, false, ProgressThread::kAuto},
        Medium{"MixedProcesses", PeerKind::kProcesses, true, true, ProgressThread::kOff},
        Medium{"MixedProcessesWithProgressThread", PeerKind::kProcesses, true, true,
               ProgressThread::kOn}),
    [](const auto& instance) { return instance.param.name; });

TEST(Mesh, SendsCanStartBeforeThePeerIsThere) {
  // Both ranks start sends to each other, and only later look for what came.
  const auto reports = run_mesh_peers(
      PeerKind::kProcesses, 2, [](ring::MeshOptions&) {},
      [](Mesh& mesh) -> std::string {
        const int peer = 1 - mesh.rank();
        std::vector<std::byte> out(5000000, std::byte(mesh.rank() + 1));
        std::vector<std::byte> in(out.size());
        Request* send = mesh.isend(peer, ConstBuffer(out.data(), out.size()), label_of(1)).value();
        if (mesh.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(200));
        Request* receive = mesh.irecv(peer, Buffer{in.data(), in.size()}, label_of(1)).value();
        while (!mesh.poll(receive).value()) std::this_thread::yield();
        const Result<ConstBuffer> sent = mesh.wait(send);
        return sent.is_ok() && in.back() == std::byte(peer + 1) ? "ok" : to_text(sent.status());
      });
  for (const PeerReport& report : reports) EXPECT_EQ(report.text, "ok");
}

TEST(Mesh, StagingKeepsItsSlots) {
  const auto reports = run_mesh_peers(
      PeerKind::kThreads, 1, [](ring::MeshOptions&) {},
      [](Mesh& mesh) -> std::string {
        const Buffer a = mesh.staging(0, 1000).value();
        const Buffer b = mesh.staging(5, 100).value();
        const Buffer again = mesh.staging(0, 500).value();
        const Buffer grown = mesh.staging(0, 2000000).value();
        const bool good = a.data == again.data && a.data != b.data && grown.bytes >= 2000000 &&
                          reinterpret_cast<std::uintptr_t>(b.data) % 64 == 0;
        std::memset(grown.data, 1, grown.bytes);
        return good ? "ok" : "wrong";
      });
  EXPECT_EQ(reports[0].text, "ok");
}

TEST(Mesh, CountsPayloadsAndHeaders) {
  const auto reports = run_mesh_peers(
      PeerKind::kThreads, 2, [](ring::MeshOptions&) {},
      [](Mesh& mesh) -> std::string {
        std::vector<std::byte> memory(1000000);
        Request* request =
            mesh.rank() == 0
                ? mesh.isend(1, ConstBuffer(memory.data(), memory.size()), label_of(1)).value()
                : mesh.irecv(0, Buffer{memory.data(), memory.size()}, label_of(1)).value();
        if (!mesh.wait(request).is_ok()) return "failed";
        const MeshCounters counters = mesh.counters();
        // Rank 0 stays until rank 1 has counted: the frame that says goodbye is not to be among
        // them.
        std::byte counted{};
        Request* last = mesh.rank() == 0
                            ? mesh.irecv(1, Buffer{&counted, 1}, label_of(2)).value()
                            : mesh.isend(0, ConstBuffer(&counted, 1), label_of(2)).value();
        if (!mesh.wait(last).is_ok()) return "failed";
        return std::to_string(mesh.rank() == 0 ? counters.sent_bytes : counters.received_bytes);
      });
  for (const PeerReport& report : reports) EXPECT_EQ(report.text, "1000064");
}

}  // namespace
}  // namespace ringpress::testing
