// Frames, hellos, ids and bootstrap messages as bytes.
#include "ring/transport/common/frame.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>

#include "ring/bootstrap/agreement.h"
#include "ring/bootstrap/message.h"
#include "ring/bootstrap/unique_id.h"
#include "ring/transport/common/crc32c.h"
#include "ring/transport/common/hello.h"
#include "ring/transport/common/socket.h"

namespace ringpress::ring::transport {
namespace {

HeaderBytes bytes_of(const FrameHeader& header) {
  HeaderBytes bytes;
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

TEST(Crc32c, HasTheValueOfTheStandard) {
  EXPECT_EQ(crc32c("123456789", 9), 0xE3069283u);
  EXPECT_EQ(crc32c("", 0), 0u);
}

RC_GTEST_PROP(Crc32c, ContinuesOverPieces, (const std::string& a, const std::string& b)) {
  const std::string whole = a + b;
  RC_ASSERT(crc32c(b.data(), b.size(), crc32c(a.data(), a.size())) ==
            crc32c(whole.data(), whole.size()));
}

TEST(Frame, HeaderSurvivesTheWire) {
  FrameLabel label;
  label.call.sequence = 9;
  label.step = 3;
  const std::string payload = "payload";
  const FrameHeader sent = checked_data_header(label, std::as_bytes(std::span(payload)));
  FrameHeader received;
  ASSERT_TRUE(parse_header(bytes_of(sent), received).is_ok());
  EXPECT_EQ(received.label, label);
  EXPECT_EQ(received.payload_bytes, payload.size());
  EXPECT_EQ(received.payload_crc, crc32c(payload.data(), payload.size()));
}

TEST(Frame, EveryFlippedBitOfAHeaderIsFound) {
  const HeaderBytes good = bytes_of(data_header(FrameLabel{}, 77));
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    HeaderBytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    FrameHeader header;
    EXPECT_EQ(parse_header(bad, header).code(), Code::kCorrupt) << bit;
  }
}

TEST(Frame, RefusesWhatIsSealedButWrong) {
  const auto refused = [](auto change) {
    FrameHeader header = data_header(FrameLabel{}, 0);
    change(header);
    seal_header(header);
    FrameHeader parsed;
    return parse_header(bytes_of(header), parsed).code() == Code::kCorrupt;
  };
  EXPECT_TRUE(refused([](FrameHeader& h) { h.magic ^= 1; }));
  EXPECT_TRUE(refused([](FrameHeader& h) { h.kind = static_cast<FrameKind>(9); }));
  EXPECT_TRUE(refused([](FrameHeader& h) { h.flags = 2; }));
  EXPECT_TRUE(refused([](FrameHeader& h) { h.reserved = 1; }));
  EXPECT_TRUE(refused([](FrameHeader& h) {
    h.kind = FrameKind::kAbort;
    h.payload_bytes = kMaxAbortBytes + 1;
  }));
  EXPECT_TRUE(refused([](FrameHeader& h) {
    h.kind = FrameKind::kGoodbye;
    h.payload_bytes = 1;
  }));
}

TEST(Frame, AbortFramesCarryCodeAndText) {
  const std::string frame = control_frame(Status(Code::kMismatch, "a\nb" + std::string(3000, 'x')));
  EXPECT_EQ(frame.size(), kHeaderBytes + kMaxAbortBytes);
  HeaderBytes head;
  std::memcpy(head.data(), frame.data(), head.size());
  FrameHeader header;
  ASSERT_TRUE(parse_header(head, header).is_ok());
  const std::string text = frame.substr(kHeaderBytes);
  const Status reason = abort_reason(header, std::as_bytes(std::span(text)));
  EXPECT_EQ(reason.code(), Code::kMismatch);
  EXPECT_EQ(reason.message().substr(0, 4), "a?bx");
}

TEST(Hello, HandshakeSucceedsOnlyWithTheSecret) {
  Secret secret{};
  fill_random(secret.data(), secret.size());
  Identity identity;
  identity.world = 4;
  const auto shake = [&](const Secret& ours, const Secret& theirs) {
    ConnectorHandshake connector(make_hello(identity, HelloPurpose::kData), ours);
    AcceptorHandshake acceptor(make_hello(identity, HelloPurpose::kData), theirs);
    const auto second = acceptor.answer(connector.first());
    if (!second) return false;
    const auto third = connector.answer(*second);
    return third && acceptor.confirm(*third);
  };
  EXPECT_TRUE(shake(secret, secret));
  EXPECT_FALSE(shake(secret, mix_secret(secret, "passphrase")));
  EXPECT_TRUE(shake(mix_secret(secret, "a"), mix_secret(secret, "a")));
  EXPECT_EQ(mix_secret(secret, ""), secret);
}

TEST(Hello, AnOverheardHandshakeCannotBeReplayed) {
  const Secret secret{};
  const Identity identity;
  ConnectorHandshake connector(make_hello(identity, HelloPurpose::kData), secret);
  AcceptorHandshake first(make_hello(identity, HelloPurpose::kData), secret);
  const HelloBytes hello = connector.first();
  const HelloBytes answer = *connector.answer(*first.answer(hello));
  EXPECT_TRUE(first.confirm(answer));
  AcceptorHandshake second(make_hello(identity, HelloPurpose::kData), secret);
  ASSERT_TRUE(second.answer(hello).has_value());
  EXPECT_FALSE(second.confirm(answer));
}

TEST(Hello, EveryFlippedBitIsFound) {
  const Secret secret{};
  ConnectorHandshake connector(make_hello(Identity{}, HelloPurpose::kData), secret);
  for (std::size_t bit = 0; bit < 8 * kHelloBytes; ++bit) {
    HelloBytes bad = connector.first();
    bad[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    AcceptorHandshake acceptor(make_hello(Identity{}, HelloPurpose::kData), secret);
    EXPECT_FALSE(acceptor.answer(bad).has_value()) << bit;
  }
}

TEST(Address, TextSurvivesParsing) {
  for (const char* text : {"127.0.0.1:80", "10.1.2.3:65535", "[::1]:4711", "[fd00::7]:1"}) {
    const Result<SocketAddress> address = parse_address(text);
    ASSERT_TRUE(address.is_ok()) << text;
    EXPECT_EQ(to_text(address.value()), text);
  }
  for (const char* text : {"", ":", "1.2.3.4", "1.2.3.4:", "1.2.3.4:65536", "1.2.3.4:x", "host:1",
                           "[::1:80", "::1:80", "1.2.3:80", "[]:1"}) {
    EXPECT_EQ(parse_address(text).status().code(), Code::kInvalidArgument) << text;
  }
}

TEST(UniqueId, SurvivesPackingAndRefusesOthers) {
  bootstrap::UniqueId id;
  id.address = "[fd00::7]:4711";
  id.secret.fill(std::byte{9});
  bootstrap::IdBytes bytes = bootstrap::pack_id(id).value();
  const Result<bootstrap::UniqueId> again = bootstrap::unpack_id(bytes);
  ASSERT_TRUE(again.is_ok());
  EXPECT_EQ(again.value().address, id.address);
  EXPECT_EQ(again.value().secret, id.secret);
  bytes[6] = std::byte{255};  // The length of the address.
  EXPECT_FALSE(bootstrap::unpack_id(bytes).is_ok());
  EXPECT_EQ(bootstrap::unpack_id({}).status().code(), Code::kInvalidArgument);
  id.address.assign(105, 'x');
  EXPECT_FALSE(bootstrap::pack_id(id).is_ok());
}

bootstrap::Join join_of(std::uint32_t rank, std::uint32_t size) {
  bootstrap::Join join;
  join.protocol_version = kProtocolVersion;
  join.rank = rank;
  join.size = size;
  join.library_version = 100;
  join.endpoint.addresses = {"127.0.0.1:1", "@memory"};
  join.agreement = {"A=1", "B="};
  join.word = 4711 + rank;
  return join;
}

TEST(BootstrapMessage, JoinSurvivesPacking) {
  const bootstrap::Join sent = join_of(2, 4);
  const std::string bytes = bootstrap::pack_join(sent).value();
  const auto received = bootstrap::unpack_join(bytes.substr(bootstrap::kPrefixBytes));
  ASSERT_TRUE(received.is_ok());
  EXPECT_EQ(received.value().rank, 2u);
  EXPECT_EQ(received.value().endpoint.addresses, sent.endpoint.addresses);
  EXPECT_EQ(received.value().agreement, sent.agreement);
  EXPECT_EQ(received.value().refusal, "");
  EXPECT_EQ(received.value().word, sent.word);
  bootstrap::Join refusing = sent;
  refusing.refusal = "no interface\nA=2";
  const auto heard = bootstrap::unpack_join(
      bootstrap::pack_join(refusing).value().substr(bootstrap::kPrefixBytes));
  ASSERT_TRUE(heard.is_ok());
  EXPECT_EQ(heard.value().refusal, refusing.refusal);
  EXPECT_EQ(heard.value().agreement, sent.agreement);
  bootstrap::Join big = sent;
  big.agreement.push_back(std::string(20000, 'x'));
  EXPECT_FALSE(bootstrap::pack_join(big).is_ok());
}

// Whatever the others have, also where they have not come yet; and only that: text in an agreement
// refuses nothing.
TEST(Agreement, ARefusalIsAReasonOfItsOwn) {
  bootstrap::Join refusing = join_of(2, 4);
  refusing.refusal = "no interface";
  const std::map<std::uint32_t, bootstrap::Join> none, one = {{1, join_of(1, 4)}};
  for (const auto& joined : {none, one}) {
    const Status verdict = bootstrap::compare_join(joined, refusing);
    EXPECT_EQ(verdict.code(), Code::kRefused);
    EXPECT_EQ(verdict.message(), "rank 2: no interface");
  }
  bootstrap::Join other = join_of(2, 4);
  other.agreement[0] = "rank 2: no interface";
  EXPECT_EQ(bootstrap::compare_join(one, other).code(), Code::kMismatch);
}

// Whatever else it says, and wherever: versions before 4 had no refusal, or no word for all.
TEST(Agreement, AnotherVersionOfTheProtocolIsRefusedWhateverItSays) {
  bootstrap::Join of_now = join_of(2, 4);
  of_now.refusal = "no interface";
  const std::string said = bootstrap::pack_join(of_now).value().substr(bootstrap::kPrefixBytes);
  for (const std::uint32_t version : {3U, kProtocolVersion + 1U}) {
    for (const std::size_t left_out : {0, 4, 8, 180}) {
      std::string other = said.substr(0, 16) + said.substr(16 + left_out);
      std::memcpy(other.data(), &version, sizeof version);
      const auto heard = bootstrap::unpack_join(other);
      ASSERT_TRUE(heard.is_ok()) << heard.status().message();
      const std::map<std::uint32_t, bootstrap::Join> none, one = {{1, join_of(1, 4)}};
      for (const auto& joined : {none, one}) {
        const Status verdict = bootstrap::compare_join(joined, heard.value());
        EXPECT_EQ(verdict.code(), Code::kMismatch);
        EXPECT_EQ(verdict.message(), "protocol version: rank 2 has " + std::to_string(version) +
                                         ", the rank where all meet has " +
                                         std::to_string(kProtocolVersion));
      }
    }
  }
}

RC_GTEST_PROP(BootstrapMessage, AnyBytesGiveAResult, (const std::string& body)) {
  static_cast<void>(bootstrap::unpack_join(body));
  static_cast<void>(bootstrap::unpack_answer({0, 0}, body, 3));
  static_cast<void>(bootstrap::unpack_answer({77, 0}, body, 3));
}

TEST(Agreement, NamesBothRanksAndBothValues) {
  const std::map<std::uint32_t, bootstrap::Join> joined = {{1, join_of(1, 4)}};
  const auto verdict = [&](auto change, std::uint32_t rank = 0) {
    bootstrap::Join join = join_of(rank, 4);
    change(join);
    return bootstrap::compare_join(joined, join).message();
  };
  EXPECT_EQ(verdict([](auto&) {}), "");
  EXPECT_EQ(verdict([](auto& j) { j.agreement[0] = "A=2"; }), "A: rank 0 has 2, rank 1 has 1");
  EXPECT_EQ(verdict([](auto& j) { j.agreement.pop_back(); }),
            "B: rank 0 has no such setting, rank 1 has ");
  EXPECT_EQ(verdict([](auto& j) { j.size = 5; }, 3), "number of ranks: rank 1 has 4, rank 3 has 5");
  EXPECT_EQ(verdict([](auto& j) { j.library_version = 101; }),
            "library version: rank 0 has 101, rank 1 has 100");
  EXPECT_EQ(verdict([](auto&) {}, 1), "two processes both claim to be rank 1");
  EXPECT_EQ(verdict([](auto& j) { j.rank = 4; }),
            "rank 4 does not exist in a communicator of 4 ranks");
  EXPECT_EQ(bootstrap::missing_ranks(joined, 4, 500, 0).message(),
            "ranks 0, 2, 3 of 4 never came (waited 500 ms)");
}

}  // namespace
}  // namespace ringpress::ring::transport
