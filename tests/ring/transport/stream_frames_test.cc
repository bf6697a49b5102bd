// Frames of a stream, without one: what is sent is received, however it is cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "ring/transport/common/incoming_frames.h"
#include "ring/transport/common/outgoing_frames.h"

namespace ringpress::ring::transport {
namespace {

constexpr Ends kEnds{1, 0};

FrameLabel label(std::uint32_t chunk) {
  FrameLabel made;
  made.chunk = chunk;
  return made;
}

/// Moves at most `most` bytes, as one system call would. 0: none could be moved.
std::size_t move(OutgoingFrames& from, IncomingFrames& to, std::size_t most, Status* taken) {
  iovec sent[OutgoingFrames::kMaxPieces];
  iovec wanted[2];
  const std::size_t pieces = from.gather(sent);
  const std::size_t places = to.gather(wanted);
  std::vector<std::byte> wire;
  for (std::size_t i = 0; i < pieces; ++i) {
    const auto* data = static_cast<const std::byte*>(sent[i].iov_base);
    wire.insert(wire.end(), data, data + sent[i].iov_len);
  }
  wire.resize(std::min(wire.size(), most));
  std::size_t moved = 0;
  for (std::size_t i = 0; i < places; ++i) {
    const std::size_t part = std::min(wire.size() - moved, wanted[i].iov_len);
    if (part > 0) std::memcpy(wanted[i].iov_base, wire.data() + moved, part);
    moved += part;
  }
  if (moved == 0) return 0;
  from.account(moved);
  *taken = to.take(moved);
  return moved;
}

TEST(StreamFrames, ArriveWholeHoweverTheyAreCut) {
  for (const std::size_t most : {1, 7, 63, 64, 65, 100, 1000}) {
    const std::vector<std::size_t> lengths{100, 0, 1, 300};
    std::vector<std::vector<std::byte>> payloads, received;
    std::vector<SendOperation> sends(lengths.size());
    std::vector<ReceiveOperation> receives(lengths.size());
    OutgoingFrames out;
    IncomingFrames in(kEnds);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      payloads.emplace_back(lengths[i], std::byte(i + 1));
      received.emplace_back(lengths[i]);
    }
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      sends[i].header = checked_data_header(label(std::uint32_t(i)), payloads[i]);
      sends[i].payload = ConstBuffer(payloads[i].data(), lengths[i]);
      out.push(&sends[i]);
      receives[i].expected = {label(std::uint32_t(i)), FrameLength::exactly(lengths[i])};
      receives[i].into = received[i].data();
      ASSERT_TRUE(in.expect(&receives[i]).is_ok());
    }
    out.end_with(control_frame(Status::ok()));
    Status taken;
    while (taken.is_ok() && !in.has_control() && move(out, in, most, &taken) > 0) {
    }
    ASSERT_TRUE(taken.is_ok()) << taken.message();
    EXPECT_TRUE(in.has_control() && in.is_goodbye() && out.is_empty());
    EXPECT_FALSE(in.is_expecting());
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      EXPECT_TRUE(sends[i].done && receives[i].done);
      EXPECT_EQ(received[i], payloads[i]);
    }
  }
}

TEST(StreamFrames, WhatNobodyExpectsIsDroppedUpToTheReason) {
  std::vector<std::byte> payload(200'000), received(payload.size());
  SendOperation send;
  send.header = checked_data_header(label(0), payload);
  send.payload = ConstBuffer(payload.data(), payload.size());
  ReceiveOperation receive;
  receive.expected = {label(0), FrameLength::exactly(payload.size())};
  receive.into = received.data();
  OutgoingFrames out;
  IncomingFrames in(kEnds);
  out.push(&send);
  out.end_with(control_frame(Status(Code::kMismatch, "the reason")));
  ASSERT_TRUE(in.expect(&receive).is_ok());
  Status taken;
  ASSERT_GT(move(out, in, 1000, &taken), 0u);  // The middle of the payload.
  in.drain();
  while (taken.is_ok() && !in.has_control() && move(out, in, 5000, &taken) > 0) {
  }
  ASSERT_TRUE(taken.is_ok() && in.has_control()) << taken.message();
  EXPECT_FALSE(in.is_goodbye() || receive.done);
  EXPECT_EQ(in.reason().code(), Code::kMismatch);
}

}  // namespace
}  // namespace ringpress::ring::transport
