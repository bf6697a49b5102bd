// Meshes that fail: every rank hears of it, with the same reason, and nobody hangs.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/contract/transport_contract.h"
#include "tests/support/peer_group.h"

namespace ringpress::testing {
namespace {

using std::chrono::milliseconds;

struct Setting {
  const char* name;
  PeerKind kind;
  bool shared_memory;
  ProgressThread progress_thread;
  bool is_encrypted = false;
};

class MeshFailure : public ::testing::TestWithParam<Setting> {
 protected:
  static OptionsFunction options(milliseconds timeout = milliseconds(100000)) {
    const Setting setting = GetParam();
    return [setting, timeout](ring::MeshOptions& options) {
      options.shared_memory = setting.shared_memory;
      options.progress_thread = setting.progress_thread;
      options.is_encrypted = setting.is_encrypted;
      options.timeout = timeout;
    };
  }
};

/// One step of a ring: to the next rank, from the previous one. `bytes` both ways.
Status ring_step(Mesh& mesh, const FrameLabel& label, std::vector<std::byte>& out,
                 std::vector<std::byte>& in) {
  const int next = (mesh.rank() + 1) % mesh.size();
  const int previous = (mesh.rank() + mesh.size() - 1) % mesh.size();
  RINGPRESS_ASSIGN_OR_RETURN(Request * receive,
                             mesh.irecv(previous, Buffer{in.data(), in.size()}, label));
  RINGPRESS_ASSIGN_OR_RETURN(Request * send,
                             mesh.isend(next, ConstBuffer(out.data(), out.size()), label));
  RINGPRESS_RETURN_IF_ERROR(mesh.wait(receive).status());
  RINGPRESS_RETURN_IF_ERROR(mesh.wait(send).status());
  mesh.release(receive);
  mesh.release(send);
  return Status::ok();
}

/// Steps until one fails; `before` may do harm first.
std::string run_ring(Mesh& mesh, std::size_t bytes,
                     const std::function<void(Mesh&, FrameLabel&)>& before) {
  std::vector<std::byte> out(bytes, std::byte{1});
  std::vector<std::byte> in(bytes);
  for (std::uint64_t call = 0; call < 100000; ++call) {
    FrameLabel label = label_of(call);
    before(mesh, label);
    const Status status = ring_step(mesh, label, out, in);
    if (status.is_ok()) continue;
    // The first failure is final.
    const Status again = ring_step(mesh, label, out, in);
    if (again.message() != status.message() || mesh.failure().message() != status.message()) {
      return "the failure changed from " + status.message() + " to " + again.message();
    }
    return to_text(status);
  }
  return "no failure";
}

class Leave : public std::exception {};

TEST_P(MeshFailure, ALostRankIsNamedOnAllOthers) {
  if (GetParam().kind == PeerKind::kThreads) return;  // A thread cannot be killed.
  for (const std::size_t bytes : {100u, 3000000u}) {
    const auto reports = run_mesh_peers(GetParam().kind, 4, options(), [&](Mesh& mesh) {
      return run_ring(mesh, bytes, [](Mesh& m, FrameLabel& label) {
        if (m.rank() == 2 && label.call.sequence == 5) raise(SIGKILL);
      });
    });
    EXPECT_EQ(reports[2].signal, SIGKILL);
    for (const int rank : {0, 1, 3}) {
      EXPECT_EQ(reports[static_cast<std::size_t>(rank)].text.substr(0, 30),
                std::string("peer lost: rank 2 was lost: its memory is gone").substr(0, 30))
          << rank << ": " << reports[static_cast<std::size_t>(rank)].text;
    }
  }
}

/// Who only knows its neighbours hears of it from them, one after the other, before it times out.
TEST_P(MeshFailure, ALostRankIsNamedAllAroundARing) {
  if (GetParam().kind == PeerKind::kThreads) return;
  constexpr int kRanks = 12;
  const auto reports =
      run_mesh_peers(GetParam().kind, kRanks, options(milliseconds(30000)), [&](Mesh& mesh) {
        return run_ring(mesh, 1000, [](Mesh& m, FrameLabel& label) {
          if (m.rank() == 2 && label.call.sequence == 5) raise(SIGKILL);
        });
      });
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == 2) continue;
    EXPECT_EQ(reports[static_cast<std::size_t>(rank)].text.find("peer lost: rank 2 was lost"), 0u)
        << rank << ": " << reports[static_cast<std::size_t>(rank)].text;
  }
}

TEST_P(MeshFailure, DifferentCallsAreNamedOnAllRanks) {
  for (const std::size_t bytes : {100u, 3000000u}) {
    const auto reports = run_mesh_peers(GetParam().kind, 4, options(), [&](Mesh& mesh) {
      return run_ring(mesh, bytes, [](Mesh& m, FrameLabel& label) {
        if (m.rank() == 2 && label.call.sequence == 5) label.call.count = 77;
      });
    });
    for (const PeerReport& report : reports) {
      EXPECT_EQ(report.text.find("mismatch between ranks: rank"), 0u) << report.text;
      EXPECT_NE(report.text.find("rank 2 made call 5: all_reduce of 77 float32"), std::string::npos)
          << report.text;
      EXPECT_NE(report.text.find("made call 5: all_reduce of 1000 float32"), std::string::npos)
          << report.text;
    }
  }
}

TEST_P(MeshFailure, ARankThatLeavesIsNamed) {
  const auto reports = run_mesh_peers(GetParam().kind, 3, options(), [](Mesh& mesh) -> std::string {
    try {
      return run_ring(mesh, 1000, [](Mesh& m, FrameLabel& label) {
        if (m.rank() == 2 && label.call.sequence == 5) throw Leave();
      });
    } catch (const Leave&) {
      return "left";
    }
  });
  EXPECT_EQ(reports[2].text, "left");
  EXPECT_EQ(reports[0].text, "peer lost: rank 2 left the communicator");
  EXPECT_EQ(reports[1].text, "peer lost: rank 2 left the communicator");
}

TEST_P(MeshFailure, ARankThatStallsRunsIntoTheTimeout) {
  const auto reports =
      run_mesh_peers(GetParam().kind, 3, options(milliseconds(400)), [](Mesh& mesh) {
        return run_ring(mesh, 1000, [](Mesh& m, FrameLabel& label) {
          if (m.rank() == 2 && label.call.sequence == 5) {
            std::this_thread::sleep_for(milliseconds(3000));
          }
        });
      });
  for (const PeerReport& report : reports) {
    EXPECT_EQ(report.text.find("timeout: rank "), 0u) << report.text;
    // Two ranks may run into it at the same moment; each names the one that it waited for.
    EXPECT_NE(report.text.find("waited 400 ms for rank"), std::string::npos) << report.text;
  }
}

TEST_P(MeshFailure, APeerThatNeverConnectsRunsIntoTheTimeout) {
  const auto reports =
      run_mesh_peers(GetParam().kind, 2, options(milliseconds(400)), [](Mesh& mesh) -> std::string {
        if (mesh.rank() == 1) {
          std::this_thread::sleep_for(milliseconds(3000));
          return "idle";
        }
        std::byte byte{};
        Request* receive = mesh.irecv(1, Buffer{&byte, 1}, label_of(1)).value();
        return to_text(mesh.wait(receive).status());
      });
  EXPECT_EQ(reports[0].text,
            "timeout: rank 0 waited 400 ms for rank 1 to send a frame of call 1: all_reduce of "
            "1000 float32, sum, ring, codec #00000000 (rank 1 has not connected)");
}

TEST_P(MeshFailure, AbortEndsAWaitHereAndEverywhere) {
  const auto reports = run_mesh_peers(GetParam().kind, 3, options(), [](Mesh& mesh) {
    std::thread aborter;
    std::string text = run_ring(mesh, 1000, [&aborter](Mesh& m, FrameLabel& label) {
      if (m.rank() != 1 || label.call.sequence != 5) return;
      aborter = std::thread([&m] {
        std::this_thread::sleep_for(milliseconds(20));
        m.abort(Status(Code::kAborted, "the user pressed a key"));
      });
    });
    if (aborter.joinable()) aborter.join();
    return text;
  });
  for (const PeerReport& report : reports) {
    EXPECT_EQ(report.text, "aborted: the user pressed a key");
  }
}

TEST_P(MeshFailure, AbortOutsideACallReachesThePeers) {
  const auto reports = run_mesh_peers(GetParam().kind, 2, options(), [](Mesh& mesh) {
    std::vector<std::byte> out(10);
    std::vector<std::byte> in(10);
    if (!ring_step(mesh, label_of(0), out, in).is_ok()) return std::string("too early");
    if (mesh.rank() == 0) {
      // An abort may overtake what is still under way; let the first step end everywhere.
      std::this_thread::sleep_for(milliseconds(200));
      mesh.abort(Status(Code::kAborted, "enough"));
      std::this_thread::sleep_for(milliseconds(300));
    }
    return to_text(ring_step(mesh, label_of(1), out, in));
  });
  EXPECT_EQ(reports[0].text, "aborted: enough");
  EXPECT_EQ(reports[1].text, "aborted: enough");
}

// Who has nothing under way hears it by looking, and nothing as long as there is nothing to hear.
TEST_P(MeshFailure, CheckHearsOfAFailureOutsideACall) {
  const auto reports = run_mesh_peers(GetParam().kind, 2, options(), [](Mesh& mesh) {
    std::vector<std::byte> out(10);
    std::vector<std::byte> in(10);
    if (!ring_step(mesh, label_of(0), out, in).is_ok()) return std::string("too early");
    if (mesh.rank() == 0) {
      const Status before = mesh.check();
      std::this_thread::sleep_for(milliseconds(200));  // As above.
      mesh.abort(Status(Code::kAborted, "enough"));
      return to_text(before) + to_text(mesh.check());
    }
    while (mesh.check().is_ok()) std::this_thread::sleep_for(milliseconds(1));
    return to_text(mesh.failure());
  });
  EXPECT_EQ(reports[0].text, "ok: aborted: enough");
  EXPECT_EQ(reports[1].text, "aborted: enough");
}

// A peer whose connection is still being made waits too: it is told, not refused.
TEST_P(MeshFailure, AnAbortReachesAPeerThatIsConnecting) {
  const auto reports = run_mesh_peers(GetParam().kind, 2, options(), [](Mesh& mesh) {
    std::vector<std::byte> out(10);
    if (mesh.rank() == 1) {
      std::this_thread::sleep_for(milliseconds(200));
      mesh.abort(Status(Code::kAborted, "enough"));
      return to_text(mesh.failure());
    }
    const auto send = mesh.isend(1, ConstBuffer(out.data(), out.size()), label_of(0));
    if (!send.is_ok()) return std::string("too early");
    std::this_thread::sleep_for(milliseconds(300));
    Status status = mesh.wait(send.value()).status();
    if (status.is_ok()) {
      // A small frame may have gone before the reason came.
      const auto receive = mesh.irecv(1, Buffer{out.data(), out.size()}, label_of(0));
      status = receive.is_ok() ? mesh.wait(receive.value()).status() : receive.status();
    }
    return to_text(status);
  });
  for (const PeerReport& report : reports) EXPECT_EQ(report.text, "aborted: enough");
}

TEST_P(MeshFailure, SlowPeersAreNoFailureWhileBytesMove) {
  // Each step takes most of the timeout; together they take several of it.
  const auto reports =
      run_mesh_peers(GetParam().kind, 2, options(milliseconds(2000)), [](Mesh& mesh) {
        std::vector<std::byte> out(100000);
        std::vector<std::byte> in(100000);
        for (std::uint64_t call = 0; call < 4; ++call) {
          if (mesh.rank() == 0) std::this_thread::sleep_for(milliseconds(700));
          const Status status = ring_step(mesh, label_of(call), out, in);
          if (!status.is_ok()) return to_text(status);
        }
        return std::string("ok");
      });
  for (const PeerReport& report : reports) EXPECT_EQ(report.text, "ok");
}

INSTANTIATE_TEST_SUITE_P(
    Media, MeshFailure,
    ::testing::Values(
        Setting{"TcpProcesses", PeerKind::kProcesses, false, ProgressThread::kOff},
        Setting{"TcpProcessesWithProgressThread", PeerKind::kProcesses, false, ProgressThread::kOn},
        Setting{"EncryptedTcpProcesses", PeerKind::kProcesses, false, ProgressThread::kOff, true},
        Setting{"ShmProcesses", PeerKind::kProcesses, true, ProgressThread::kOff},
        Setting{"TcpThreads", PeerKind::kThreads, false, ProgressThread::kOn},
        Setting{"ShmThreads", PeerKind::kThreads, true, ProgressThread::kOff}),
    [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace ringpress::testing
