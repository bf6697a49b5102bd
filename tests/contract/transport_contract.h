// What every Transport promises, tested once and instantiated per medium. A Maker has
//   static std::unique_ptr<Transport> make(ring::transport::Reactor& reactor);
// and kIsEncrypted where connections are to be.
// Both ends live in one thread, which drives them in turn: every test is deterministic.
#ifndef TESTS_CONTRACT_TRANSPORT_CONTRACT_H_
#define TESTS_CONTRACT_TRANSPORT_CONTRACT_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ring/transport/common/reactor.h"
#include "ringpress/internal/transport.h"

namespace ringpress::testing {

inline FrameLabel label_of(std::uint64_t sequence, std::uint32_t chunk = 0) {
  FrameLabel label;
  label.call.sequence = sequence;
  label.call.count = 1000;
  label.chunk = chunk;
  return label;
}

inline std::vector<std::byte> random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(engine());
  return bytes;
}

/// Two ranks and a connection from rank 0 to rank 1.
template <typename Maker>
class TransportPair {
 public:
  TransportPair() {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      transports_[rank] = Maker::make(reactors_[rank]);
      Identity identity;
      identity.rank = rank;
      identity.world = 2;
      identity.configuration_hash = 42;
      identity.secret.fill(std::byte{7});
      if constexpr (requires { Maker::kIsEncrypted; }) identity.is_encrypted = true;
      addresses_[rank] = transports_[rank]->listen(identity).value();
    }
  }
  ~TransportPair() {
    send_.reset();
    receive_.reset();
  }

  void connect() { connect_to(addresses_[1]); }
  void connect_to(const std::string& address) {
    EXPECT_TRUE(drive([&] {
      if (send_ == nullptr) send_ = transports_[0]->connect(1, address).value();
      if (receive_ == nullptr) receive_ = transports_[1]->accept().value().channel;
      return send_ != nullptr && receive_ != nullptr;
    }));
  }

  /// Moves bytes on both sides until `done` holds. False after `patience`.
  bool drive(const std::function<bool()>& done,
             std::chrono::milliseconds patience = std::chrono::seconds(100)) {
    const Deadline until = Clock::now() + patience;
    while (!done()) {
      for (auto& transport : transports_) static_cast<void>(transport->progress());
      if (Clock::now() >= until) return false;
    }
    return true;
  }

  bool drive_send(Request* request) {
    return drive([&] { return send_->test(request).value().done; });
  }
  Completion drive_receive(Request* request) {
    Completion completion;
    EXPECT_TRUE(drive([&] {
      completion = receive_->test(request).value();
      return completion.done;
    }));
    return completion;
  }
  /// The error that a receive ends with.
  Status receive_failure(Request* request) {
    Status status;
    EXPECT_TRUE(drive([&] {
      status = receive_->test(request).status();
      return !status.is_ok();
    }));
    return status;
  }

  Transport& sender() { return *transports_[0]; }
  Transport& receiver() { return *transports_[1]; }
  const std::string& receiver_address() const { return addresses_[1]; }
  std::unique_ptr<SendChannel>& send() { return send_; }
  std::unique_ptr<RecvChannel>& receive() { return receive_; }

 private:
  ring::transport::Reactor reactors_[2];
  std::unique_ptr<Transport> transports_[2];
  std::string addresses_[2];
  std::unique_ptr<SendChannel> send_;
  std::unique_ptr<RecvChannel> receive_;
};

template <typename Maker>
class TransportContract : public ::testing::Test {
 protected:
  void SetUp() override { pair_.connect(); }
  TransportPair<Maker> pair_;
};
TYPED_TEST_SUITE_P(TransportContract);

TYPED_TEST_P(TransportContract, CarriesEverySizeIntoTheBufferOfTheReceiver) {
  auto& pair = this->pair_;
  std::uint64_t call = 0;
  for (const std::size_t bytes :
       {0u, 1u, 63u, 64u, 65u, 4096u, 16384u, 16385u, 131072u, 1048576u, 1048577u, 5000001u}) {
    const std::vector<std::byte> sent = random_bytes(bytes + 1, 1);
    std::vector<std::byte> received(bytes + 1, std::byte{0x5a});
    Request* receive =
        pair.receive()->irecv(Buffer{received.data(), bytes}, label_of(call)).value();
    Request* send = pair.send()->isend(ConstBuffer(sent.data(), bytes), label_of(call)).value();
    EXPECT_TRUE(pair.drive_receive(receive).done);
    EXPECT_TRUE(pair.drive_send(send));
    EXPECT_EQ(std::memcmp(sent.data(), received.data(), bytes), 0) << bytes;
    EXPECT_EQ(received[bytes], std::byte{0x5a}) << bytes;
    pair.receive()->release(receive);
    pair.send()->release(send);
    ++call;
  }
}

TYPED_TEST_P(TransportContract, GivesViewsThatLastUntilReleased) {
  auto& pair = this->pair_;
  const std::vector<std::byte> first = random_bytes(300000, 1);
  const std::vector<std::byte> second = random_bytes(5000, 2);
  Request* a = pair.receive()->irecv_view(FrameLength::exactly(first.size()), label_of(0)).value();
  Request* b =
      pair.receive()->irecv_view(FrameLength::at_most(second.size() + 1), label_of(1)).value();
  pair.send()->isend(ConstBuffer(first.data(), first.size()), label_of(0)).value();
  pair.send()->isend(ConstBuffer(second.data(), second.size()), label_of(1)).value();
  const Completion got_b = pair.drive_receive(b);
  const Completion got_a = pair.drive_receive(a);
  ASSERT_EQ(got_a.view.bytes, first.size());
  ASSERT_EQ(got_b.view.bytes, second.size());
  EXPECT_EQ(std::memcmp(got_a.view.data, first.data(), first.size()), 0);
  EXPECT_EQ(std::memcmp(got_b.view.data, second.data(), second.size()), 0);
  pair.receive()->release(b);
  pair.receive()->release(a);
}

TYPED_TEST_P(TransportContract, ViewsOfUnknownLengthEndWhereTheirFrameEnds) {
  auto& pair = this->pair_;
  constexpr std::size_t kLimit = 70000;
  const std::vector<std::byte> sent = random_bytes(kLimit, 4);
  std::uint64_t call = 0;
  std::vector<Request*> sends;
  std::vector<std::size_t> sizes{0, 1, 63, 64, 65, 4096, 16384, 16385, 69999, 70000, 0, 5};
  for (const std::size_t bytes : sizes) {
    sends.push_back(pair.send()->isend(ConstBuffer(sent.data(), bytes), label_of(call++)).value());
  }
  call = 0;
  for (const std::size_t bytes : sizes) {
    Request* receive =
        pair.receive()->irecv_view(FrameLength::at_most(kLimit), label_of(call)).value();
    const Completion got = pair.drive_receive(receive);
    ASSERT_EQ(got.view.bytes, bytes);
    if (bytes != 0) {
      EXPECT_EQ(std::memcmp(got.view.data, sent.data(), bytes), 0) << bytes;
    }
    pair.receive()->release(receive);
    EXPECT_TRUE(pair.drive_send(sends[call]));
    pair.send()->release(sends[call]);
    ++call;
  }
}

TYPED_TEST_P(TransportContract, FramesOfUnknownLengthGoStraightIntoTheBufferOfTheReceiver) {
  auto& pair = this->pair_;
  constexpr std::size_t kLimit = 70000;
  const std::vector<std::byte> sent = random_bytes(kLimit, 5);
  std::uint64_t call = 0;
  for (const std::size_t bytes : {0u, 1u, 64u, 4096u, 16385u, 69999u, 70000u, 0u, 5u}) {
    std::vector<std::byte> received(kLimit, std::byte{0x5a});
    Request* receive = pair.receive()
                           ->irecv(received.data(), FrameLength::at_most(kLimit), label_of(call))
                           .value();
    Request* send = pair.send()->isend(ConstBuffer(sent.data(), bytes), label_of(call)).value();
    const Completion got = pair.drive_receive(receive);
    EXPECT_EQ(got.view.data, received.data());
    ASSERT_EQ(got.view.bytes, bytes);
    EXPECT_EQ(std::memcmp(sent.data(), received.data(), bytes), 0) << bytes;
    for (std::size_t i = bytes; i < kLimit; ++i) ASSERT_EQ(received[i], std::byte{0x5a}) << i;
    EXPECT_TRUE(pair.drive_send(send));
    pair.receive()->release(receive);
    pair.send()->release(send);
    ++call;
  }
}

TYPED_TEST_P(TransportContract, RefusesAFrameThatIsLongerThanTheLimit) {
  auto& pair = this->pair_;
  std::vector<std::byte> memory(1000, std::byte{0x5a});
  const std::vector<std::byte> sent = random_bytes(1000, 6);
  Request* receive =
      pair.receive()->irecv(memory.data(), FrameLength::at_most(999), label_of(7)).value();
  pair.send()->isend(ConstBuffer(sent.data(), 1000), label_of(7)).value();
  const Status status = pair.receive_failure(receive);
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_NE(status.message().find("of 999 bytes at most"), std::string::npos) << status.message();
  EXPECT_EQ(memory, std::vector<std::byte>(1000, std::byte{0x5a}));
}

TYPED_TEST_P(TransportContract, SendsFromItsOwnMemory) {
  auto& pair = this->pair_;
  Buffer memory = pair.sender().allocate(200000).value();
  if (memory.data == nullptr) return;  // The transport has no preference.
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data) % 4096, 0u);
  const std::vector<std::byte> sent = random_bytes(200000, 3);
  std::memcpy(memory.data, sent.data(), sent.size());
  for (std::uint64_t call = 0; call < 200; ++call) {
    Request* receive =
        pair.receive()->irecv_view(FrameLength::exactly(sent.size()), label_of(call)).value();
    Request* send =
        pair.send()->isend(ConstBuffer(memory.data, sent.size()), label_of(call)).value();
    const Completion got = pair.drive_receive(receive);
    ASSERT_EQ(std::memcmp(got.view.data, sent.data(), sent.size()), 0);
    EXPECT_FALSE(pair.send()->test(send).value().done) << "the view is still held";
    pair.receive()->release(receive);
    EXPECT_TRUE(pair.drive_send(send));
    pair.send()->release(send);
  }
}

TYPED_TEST_P(TransportContract, KeepsOrderWithManyFramesUnderWay) {
  auto& pair = this->pair_;
  constexpr std::uint32_t kFrames = 500;  // More than any queue inside holds.
  std::vector<std::vector<std::byte>> sent;
  std::vector<std::vector<std::byte>> received(kFrames);
  std::vector<Request*> sends;
  std::vector<Request*> receives;
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    sent.push_back(random_bytes(i % 7 == 0 ? 60000 + i : i * 3, i));
    sends.push_back(
        pair.send()->isend(ConstBuffer(sent[i].data(), sent[i].size()), label_of(1, i)).value());
  }
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    received[i].resize(sent[i].size());
    receives.push_back(pair.receive()
                           ->irecv(Buffer{received[i].data(), received[i].size()}, label_of(1, i))
                           .value());
  }
  for (Request* receive : receives) EXPECT_TRUE(pair.drive_receive(receive).done);
  for (Request* send : sends) EXPECT_TRUE(pair.drive_send(send));
  EXPECT_EQ(sent, received);
  const TransportCounters out = pair.sender().counters();
  const TransportCounters in = pair.receiver().counters();
  EXPECT_EQ(out.sent_bytes, in.received_bytes);
}

TYPED_TEST_P(TransportContract, NamesBothCallsThatDiffer) {
  auto& pair = this->pair_;
  std::vector<std::byte> memory(1000);
  FrameLabel theirs = label_of(7);
  theirs.call.count = 100;
  FrameLabel ours = label_of(7);
  ours.call.count = 200;
  Request* receive = pair.receive()->irecv(Buffer{memory.data(), 1000}, ours).value();
  pair.send()->isend(ConstBuffer(memory.data(), 1000), theirs).value();
  const Status status = pair.receive_failure(receive);
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_NE(status.message().find("rank 0 made call 7: all_reduce of 100 float32"),
            std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("rank 1 made call 7: all_reduce of 200 float32"),
            std::string::npos)
      << status.message();
  EXPECT_FALSE(pair.receiver().progress().is_ok());
}

TYPED_TEST_P(TransportContract, RefusesAnotherLengthOrChunk) {
  auto& pair = this->pair_;
  std::vector<std::byte> memory(1000);
  Request* receive = pair.receive()->irecv(Buffer{memory.data(), 999}, label_of(7, 1)).value();
  pair.send()->isend(ConstBuffer(memory.data(), 1000), label_of(7, 2)).value();
  const Status status = pair.receive_failure(receive);
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_NE(status.message().find("chunk 2 of 1000 bytes"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("chunk 1 of 999 bytes"), std::string::npos) << status.message();
}

TYPED_TEST_P(TransportContract, ReportsALeavingSenderAfterItsLastFrame) {
  auto& pair = this->pair_;
  std::vector<std::byte> sent = random_bytes(3000, 1);
  std::vector<std::byte> memory(3000);
  pair.send()->isend(ConstBuffer(sent.data(), sent.size()), label_of(0)).value();
  pair.send()->close(Status::ok());
  EXPECT_TRUE(pair.drive([&] { return pair.send()->flushed(); }));
  pair.send().reset();
  Request* first = pair.receive()->irecv(Buffer{memory.data(), 3000}, label_of(0)).value();
  EXPECT_TRUE(pair.drive_receive(first).done);
  EXPECT_EQ(sent, memory);
  Status status;
  Result<Request*> second = pair.receive()->irecv(Buffer{memory.data(), 3000}, label_of(1));
  status = second.is_ok() ? pair.receive_failure(second.value()) : second.status();
  EXPECT_EQ(status.code(), Code::kPeerLost);
  EXPECT_EQ(status.message(), "rank 0 left the communicator");
}

TYPED_TEST_P(TransportContract, ReportsALostPeerOnBothSides) {
  auto& pair = this->pair_;
  std::vector<std::byte> memory(1000);
  Request* receive = pair.receive()->irecv(Buffer{memory.data(), 1000}, label_of(0)).value();
  pair.send().reset();
  const Status status = pair.receive_failure(receive);
  EXPECT_EQ(status.code(), Code::kPeerLost);
  EXPECT_NE(status.message().find("rank 0 was lost"), std::string::npos) << status.message();
}

TYPED_TEST_P(TransportContract, CarriesTheReasonOfAFailureBothWays) {
  auto& pair = this->pair_;
  const Status reason(Code::kCorrupt, "the reason \x01 of it");
  pair.receive()->close(reason);
  Result<bool> progress = true;
  EXPECT_TRUE(pair.drive([&] {
    progress = pair.sender().progress();
    return !progress.is_ok();
  }));
  EXPECT_EQ(progress.status().code(), Code::kCorrupt);
  EXPECT_EQ(progress.status().message(), "the reason ? of it");
}

// The sender was ahead of the receiver when it failed: frames that nobody receives lie in front.
TYPED_TEST_P(TransportContract, HearsTheReasonBehindUnclaimedFrames) {
  auto& pair = this->pair_;
  std::vector<std::vector<std::byte>> payloads;
  for (const std::size_t bytes : {100UL, 0UL, 3000UL, 70000UL, 12UL, 100UL}) {
    payloads.push_back(random_bytes(bytes, 1));
  }
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    ASSERT_TRUE(pair.send()->isend({payloads[i].data(), payloads[i].size()}, label_of(i)).is_ok());
  }
  std::vector<std::byte> into(100);
  pair.drive_receive(pair.receive()->irecv({into.data(), into.size()}, label_of(0)).value());
  EXPECT_EQ(into, payloads[0]);
  pair.send()->close({Code::kMismatch, "rank 0 gave up"});
  Status heard;
  EXPECT_TRUE(pair.drive([&] {
    pair.receive()->drain();
    heard = pair.receiver().progress().status();
    return !heard.is_ok();
  }));
  EXPECT_EQ(heard.code(), Code::kMismatch);
  EXPECT_NE(heard.message().find("rank 0 gave up"), std::string::npos) << heard.message();
}

// As above, with a receive that has got a part of its frame.
TYPED_TEST_P(TransportContract, DrainsAFrameThatIsHalfReceived) {
  auto& pair = this->pair_;
  const auto payload = random_bytes(20'000'000, 1);
  ASSERT_TRUE(pair.send()->isend({payload.data(), payload.size()}, label_of(0)).is_ok());
  std::vector<std::byte> into(payload.size());
  Request* receive = pair.receive()->irecv({into.data(), into.size()}, label_of(0)).value();
  ASSERT_TRUE(pair.receiver().progress().is_ok());
  if (pair.receive()->test(receive).value().done) return;  // This medium moves it in one piece.
  pair.receive()->drain();
  pair.send()->close({Code::kMismatch, "rank 0 gave up"});
  Status heard;
  EXPECT_TRUE(pair.drive([&] {
    heard = pair.receiver().progress().status();
    return !heard.is_ok();
  }));
  EXPECT_EQ(heard.code(), Code::kMismatch) << heard.message();
}

TYPED_TEST_P(TransportContract, CarriesTheReasonOfAFailureForward) {
  auto& pair = this->pair_;
  std::vector<std::byte> memory(1000);
  Request* receive = pair.receive()->irecv(Buffer{memory.data(), 1000}, label_of(0)).value();
  pair.send()->close(Status(Code::kAborted, "stop"));
  const Status status = pair.receive_failure(receive);
  EXPECT_EQ(status.code(), Code::kAborted);
  EXPECT_EQ(status.message(), "stop");
}

REGISTER_TYPED_TEST_SUITE_P(TransportContract, CarriesEverySizeIntoTheBufferOfTheReceiver,
                            GivesViewsThatLastUntilReleased,
                            ViewsOfUnknownLengthEndWhereTheirFrameEnds,
                            FramesOfUnknownLengthGoStraightIntoTheBufferOfTheReceiver,
                            RefusesAFrameThatIsLongerThanTheLimit, SendsFromItsOwnMemory,
                            KeepsOrderWithManyFramesUnderWay, NamesBothCallsThatDiffer,
                            RefusesAnotherLengthOrChunk, ReportsALeavingSenderAfterItsLastFrame,
                            ReportsALostPeerOnBothSides, CarriesTheReasonOfAFailureBothWays,
                            HearsTheReasonBehindUnclaimedFrames, DrainsAFrameThatIsHalfReceived,
                            CarriesTheReasonOfAFailureForward);

}  // namespace ringpress::testing

#endif  // TESTS_CONTRACT_TRANSPORT_CONTRACT_H_
