// Two ranks whose connection passes a proxy that does something wrong.
#include <gtest/gtest.h>

#include <chrono>

#include "ring/mesh_impl.h"
#include "ring/transport/tcp/factory.h"
#include "tests/contract/transport_contract.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/peer_group.h"

namespace ringpress::testing {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kHelloBytes = 128;  // Of the connector.
constexpr std::size_t kFrameBytes = 64 + 1000;

/// Two meshes; what rank 0 sends to rank 1 goes through the proxy.
class ProxiedPair {
 public:
  ProxiedPair(Fault fault, std::size_t after_bytes, milliseconds timeout,
              bool is_encrypted = false) {
    ring::MeshParts parts[2];
    std::string addresses[2];
    for (int rank = 0; rank < 2; ++rank) {
      parts[rank].rank = rank;
      parts[rank].timeout = timeout;
      parts[rank].reactor = std::make_unique<ring::transport::Reactor>();
      parts[rank].transports.push_back(
          ring::transport::tcp::make_tcp_transport(*parts[rank].reactor, {"127.0.0.1", 1}));
      Identity identity;
      identity.rank = static_cast<std::uint32_t>(rank);
      identity.world = 2;
      identity.is_encrypted = is_encrypted;
      addresses[rank] = parts[rank].transports.back()->listen(identity).value();
    }
    proxy_ = std::make_unique<FaultProxy>(addresses[1], fault, after_bytes);
    for (int rank = 0; rank < 2; ++rank) {
      parts[rank].endpoints = {{{addresses[0]}, false}, {{proxy_->address()}, false}};
      meshes_[rank] = std::make_unique<ring::MeshImpl>(std::move(parts[rank]));
    }
  }

  /// Both ranks exchange frames until one fails or `calls` are done.
  std::vector<PeerReport> exchange(int calls) {
    return run_peers(PeerKind::kThreads, 2, [&](int rank) -> std::string {
      Mesh& mesh = *meshes_[rank];
      const std::vector<std::byte> out = random_bytes(1000, 1);
      std::vector<std::byte> in(1000);
      for (int call = 0; call < calls; ++call) {
        const FrameLabel label = label_of(static_cast<std::uint64_t>(call));
        const Status status = exchange_once(mesh, out, in, label);
        if (!status.is_ok()) return to_text(status);
        if (in != out) return "silent damage";
      }
      return "ok";
    });
  }

  /// What rank 0 has sent to rank 1. The last call.
  std::string take_recorded() { return proxy_->take_recorded(); }

 private:
  static Status exchange_once(Mesh& mesh, const std::vector<std::byte>& out,
                              std::vector<std::byte>& in, const FrameLabel& label) {
    const int peer = 1 - mesh.rank();
    RINGPRESS_ASSIGN_OR_RETURN(Request * receive,
                               mesh.irecv(peer, Buffer{in.data(), in.size()}, label));
    RINGPRESS_ASSIGN_OR_RETURN(Request * send,
                               mesh.isend(peer, ConstBuffer(out.data(), out.size()), label));
    RINGPRESS_RETURN_IF_ERROR(mesh.wait(receive).status());
    RINGPRESS_RETURN_IF_ERROR(mesh.wait(send).status());
    mesh.release(receive);
    mesh.release(send);
    return Status::ok();
  }

  std::unique_ptr<FaultProxy> proxy_;
  std::unique_ptr<Mesh> meshes_[2];
};

TEST(Proxy, AnHonestOneIsNotNoticed) {
  ProxiedPair pair(Fault::kNone, 0, milliseconds(100000));
  for (const PeerReport& report : pair.exchange(50)) EXPECT_EQ(report.text, "ok");
}

TEST(Proxy, SingleBytesAreNotNoticed) {
  ProxiedPair pair(Fault::kSplit, 0, milliseconds(100000));
  for (const PeerReport& report : pair.exchange(5)) EXPECT_EQ(report.text, "ok");
}

TEST(Proxy, AFlippedBitIsFoundWhereverItIs) {
  // In the first and a later header and payload, at both ends of each.
  for (const std::size_t offset : {0u, 59u, 63u, 64u, 563u, 1063u, 1064u, 1130u, 2127u}) {
    ProxiedPair pair(Fault::kCorrupt, kHelloBytes + offset, milliseconds(100000));
    for (const PeerReport& report : pair.exchange(5)) {
      EXPECT_EQ(report.text.find("corrupt data: "), 0u) << offset << ": " << report.text;
      EXPECT_NE(report.text.find("from rank 0 to rank 1"), std::string::npos) << report.text;
    }
  }
}

TEST(Proxy, AnEncryptedConnectionGivesNothingAway) {
  const std::vector<std::byte> payload = random_bytes(1000, 1);
  const auto sees = [&payload](const std::string& wire) {
    // Any eight bytes of it.
    for (std::size_t at = 0; at + 8 <= payload.size(); at += 8) {
      const std::string part(reinterpret_cast<const char*>(&payload[at]), 8);
      if (wire.find(part) != std::string::npos) return true;
    }
    return wire.find("RRPF") != std::string::npos;  // Of a frame's header.
  };
  for (const bool is_encrypted : {false, true}) {
    ProxiedPair pair(Fault::kNone, 0, milliseconds(100000), is_encrypted);
    for (const PeerReport& report : pair.exchange(5)) EXPECT_EQ(report.text, "ok");
    EXPECT_EQ(sees(pair.take_recorded()), !is_encrypted);
  }
}

TEST(Proxy, AnEncryptedConnectionMayBeCutAnywhere) {
  ProxiedPair pair(Fault::kSplit, 0, milliseconds(100000), true);
  for (const PeerReport& report : pair.exchange(5)) EXPECT_EQ(report.text, "ok");
}

TEST(Proxy, AFlippedBitOfAnEncryptedConnectionIsFoundWhereverItIs) {
  // In the head of a record, what is sealed, and the tag.
  for (const std::size_t offset : {0u, 1u, 4u, 68u, 500u, 1067u, 1068u, 1083u, 2000u}) {
    ProxiedPair pair(Fault::kCorrupt, kHelloBytes + offset, milliseconds(2000), true);
    for (const PeerReport& report : pair.exchange(5)) {
      EXPECT_NE(report.text, "ok") << offset;
      EXPECT_NE(report.text, "silent damage") << offset;
      // A length that says more than there is waits for it.
      if (offset > 3) {
        EXPECT_EQ(report.text.find("corrupt data: "), 0u) << offset << ": " << report.text;
      }
    }
  }
}

TEST(Proxy, AStalledConnectionRunsIntoTheTimeout) {
  for (const std::size_t offset : {10u, 500u, 1064u + 700u}) {
    ProxiedPair pair(Fault::kStall, kHelloBytes + offset, milliseconds(500));
    for (const PeerReport& report : pair.exchange(5)) {
      EXPECT_EQ(report.text.find("timeout: rank "), 0u) << offset << ": " << report.text;
    }
  }
}

TEST(Proxy, AStalledHandshakeRunsIntoTheTimeout) {
  ProxiedPair pair(Fault::kStall, 70, milliseconds(500));
  for (const PeerReport& report : pair.exchange(5)) {
    EXPECT_EQ(report.text.find("timeout: rank "), 0u) << report.text;
  }
}

TEST(Proxy, ADroppedConnectionIsALostPeer) {
  for (const std::size_t offset : {std::size_t{10}, std::size_t{500}, 3 * kFrameBytes}) {
    ProxiedPair pair(Fault::kDrop, kHelloBytes + offset, milliseconds(100000));
    for (const PeerReport& report : pair.exchange(50)) {
      EXPECT_EQ(report.text.find("peer lost: rank "), 0u) << offset << ": " << report.text;
      EXPECT_NE(report.text.find("was lost"), std::string::npos) << report.text;
    }
  }
}

}  // namespace
}  // namespace ringpress::testing
