// Feeds arbitrary bytes to everything that reads bytes from outside before they are trusted: frame
// headers, hellos, unique ids, bootstrap messages, addresses, records. Also lets inputs that begin
// with a valid mac or checksum in, by sealing a copy, so that what lies behind them is reached.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ring/bootstrap/agreement.h"
#include "ring/bootstrap/message.h"
#include "ring/bootstrap/unique_id.h"
#include "ring/transport/common/frame.h"
#include "ring/transport/common/hello.h"
#include "ring/transport/common/socket.h"
#include "ring/transport/common/stream.h"

namespace {

using namespace ringpress;
using namespace ringpress::ring;

void require(bool holds) {
  if (!holds) std::abort();
}

template <typename Bytes>
Bytes take(const std::string& input) {
  Bytes bytes{};
  std::memcpy(bytes.data(), input.data(), std::min(bytes.size(), input.size()));
  return bytes;
}

void read_frame(const transport::HeaderBytes& bytes, const std::string& input) {
  FrameHeader header;
  if (!transport::parse_header(bytes, header).is_ok()) return;
  if (header.kind == FrameKind::kData) {
    for (const FrameLength length : {FrameLength::exactly(0), FrameLength::at_most(1000)}) {
      transport::ExpectedFrame expected{{}, length};
      const Status status = transport::match_frame(header, expected, 1, 2);
      const bool same = header.label == FrameLabel{} && length.allows(header.payload_bytes);
      require(status.is_ok() == same);
      require(!same || expected.length.bytes == header.payload_bytes);
    }
    return;
  }
  require(header.payload_bytes <= kMaxAbortBytes);
  const Status reason = transport::abort_reason(header, std::as_bytes(std::span(input)));
  require(!reason.is_ok() && reason.message().size() <= kMaxAbortBytes);
}

void read_hello(const std::string& input) {
  const Secret secret{};
  auto bytes = take<transport::HelloBytes>(input);
  transport::AcceptorHandshake stranger(Hello{}, secret);
  static_cast<void>(stranger.answer(bytes));
  Hello hello;
  std::memcpy(&hello, bytes.data(), sizeof hello);
  transport::seal_hello(hello, secret, transport::Nonce{});
  bytes = transport::to_bytes(hello);
  transport::AcceptorHandshake acceptor(Hello{}, secret);
  require(acceptor.answer(bytes).has_value() == (hello.magic == kHelloMagic));
  // A third hello without the challenge's mac is never good, but for the challenge of all zeros.
  static_cast<void>(acceptor.confirm(bytes));
  transport::ConnectorHandshake connector(hello, secret);
  static_cast<void>(connector.answer(bytes));
}

void read_bootstrap(const std::string& input) {
  const Result<bootstrap::Join> join = bootstrap::unpack_join(input);
  if (join.is_ok()) {
    static_cast<void>(bootstrap::compare_join({}, join.value()));
    static_cast<void>(bootstrap::compare_join({{0, bootstrap::Join{}}}, join.value()));
  }
  if (input.size() >= bootstrap::kPrefixBytes) {
    const bootstrap::Prefix prefix = bootstrap::unpack_prefix(input);
    const std::string body = input.substr(bootstrap::kPrefixBytes);
    for (const std::uint32_t size : {0u, 1u, 4u}) {
      const Result<bootstrap::Answer> answer = bootstrap::unpack_answer(prefix, body, size);
      require(!answer.is_ok() || !answer.value().status.is_ok() ||
              answer.value().endpoints.size() == size);
    }
  }
  static_cast<void>(bootstrap::unpack_id(take<bootstrap::IdBytes>(input)));
}

void read_address(const std::string& input) {
  const Result<transport::SocketAddress> address = transport::parse_address(input.substr(0, 80));
  if (!address.is_ok()) return;
  require(transport::parse_address(transport::to_text(address.value())).is_ok());
}

/// What is no record is an error, or is waited for.
void read_records(const std::string& input) {
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  const transport::Fd other(ends[1]);
  transport::Stream stream(transport::Fd(ends[0]), transport::SessionKeys{});
  const auto sent = transport::send_bytes(other.get(), input.data(), input.size());
  require(sent.bytes == input.size());
  std::byte into[64];
  iovec pieces[] = {{into, sizeof into}};
  transport::Count wire;
  const auto got = stream.receive(pieces, wire);
  require(!got.is_ok() || got.value().bytes == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  auto frame = take<transport::HeaderBytes>(input);
  read_frame(frame, input);
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof header);
  transport::seal_header(header);
  std::memcpy(frame.data(), &header, sizeof header);
  read_frame(frame, input);
  read_hello(input);
  read_bootstrap(input);
  read_address(input);
  read_records(input);
  return 0;
}
