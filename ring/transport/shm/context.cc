#include "ring/transport/shm/context.h"

#include <algorithm>
#include <cstdio>

#include "ringpress/internal/log.h"

namespace ringpress::ring::transport::shm {
namespace {

std::string random_name() {
  std::array<unsigned char, 16> bytes;
  fill_random(bytes.data(), bytes.size());
  std::string name = "ringpress-";
  for (const unsigned char byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    name += digits;
  }
  return name;
}

/// Nobody but processes of this host finds the name, so it is worth no more.
void tell_of_dropped(const HandshakeSocket& socket) {
  log_line(LogLevel::kInfo, "shared memory: dropped a connection: %s", socket.refusal().c_str());
}

}  // namespace

Result<std::unique_ptr<Transport>> make_shm_transport(Reactor& reactor,
                                                      const SharedMemoryOptions& options) {
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<Segment> segment, Segment::create(options.world));
  return std::unique_ptr<Transport>(
      std::make_unique<ShmTransport>(reactor, std::move(segment), options));
}

ShmTransport::ShmTransport(Reactor& reactor, std::unique_ptr<Segment> segment,
                           const SharedMemoryOptions& options)
    : ReactorTransport(reactor),
      options_(options),
      segment_(std::move(segment)),
      lobby_(reactor, 2 * std::size_t{options.world}, &tell_of_dropped) {
  reactor_.set_guard(this);
}

ShmTransport::~ShmTransport() {
  reactor_.set_guard(nullptr);
}

Result<std::string> ShmTransport::listen(const Identity& identity) {
  identity_ = identity;
  const std::string name = random_name();
  RINGPRESS_ASSIGN_OR_RETURN(const SocketAddress address, abstract_address(name));
  RINGPRESS_ASSIGN_OR_RETURN(Fd listener, listen_on(address));
  RINGPRESS_RETURN_IF_ERROR(lobby_.open(std::move(listener), identity, HelloPurpose::kData));
  return name;
}

OwnMemory ShmTransport::own_memory() const {
  return {segment_.get(), reactor_.wake_descriptor(), options_.world, options_.reads_process};
}

ChannelHome ShmTransport::home() {
  return {reactor_, events_, pumped_, *segment_};
}

// --- connecting ---

Status ShmTransport::advance_outgoing(Outgoing& opening) {
  if (opening.handover != nullptr) {
    if (opening.handover->state() != Handover::State::kFailed) return Status::ok();
    return Status(Code::kUnsupported, opening.handover->failure());
  }
  if (opening.hellos->state() == HandshakeSocket::State::kRefused) {
    return Status(Code::kUnsupported, opening.hellos->refusal());
  }
  if (opening.hellos->state() == HandshakeSocket::State::kReady) {
    opening.handover =
        std::make_unique<Handover>(reactor_, own_memory(), opening.hellos->take_socket(), true);
    opening.hellos.reset();
  }
  return Status::ok();
}

Result<std::unique_ptr<SendChannel>> ShmTransport::connect(std::uint32_t peer,
                                                           const std::string& address) {
  Outgoing& opening = outgoing_[peer];
  if (opening.hellos == nullptr && opening.handover == nullptr) {
    RINGPRESS_ASSIGN_OR_RETURN(const SocketAddress target, abstract_address(address));
    RINGPRESS_ASSIGN_OR_RETURN(Fd socket, start_connect(target));
    opening.hellos = std::make_unique<HandshakeSocket>(
        reactor_, std::move(socket),
        ConnectorHandshake(make_hello(identity_, HelloPurpose::kData), identity_.secret));
  }
  const Status status = advance_outgoing(opening);
  if (!status.is_ok()) {
    outgoing_.erase(peer);
    return status;
  }
  if (opening.handover == nullptr || opening.handover->state() != Handover::State::kReady) {
    return std::unique_ptr<SendChannel>();
  }
  auto channel = std::make_unique<ShmSendChannel>(home(), opening.handover->take_link(),
                                                  Ends{identity_.rank, peer});
  outgoing_.erase(peer);
  return std::unique_ptr<SendChannel>(std::move(channel));
}

bool ShmTransport::is_peer(const Hello& hello) const {
  return hello.purpose == static_cast<std::uint8_t>(HelloPurpose::kData) &&
         hello.protocol_version == kProtocolVersion && hello.world == identity_.world &&
         hello.rank < identity_.world && hello.rank != identity_.rank &&
         hello.configuration_hash == identity_.configuration_hash;
}

void ShmTransport::begin_handovers() {
  while (std::unique_ptr<HandshakeSocket> socket = lobby_.take()) {
    if (!is_peer(socket->peer())) continue;
    Incoming incoming;
    incoming.peer = socket->peer().rank;
    incoming.handover =
        std::make_unique<Handover>(reactor_, own_memory(), socket->take_socket(), false);
    incoming_.push_back(std::move(incoming));
  }
}

Result<Transport::Accepted> ShmTransport::accept() {
  begin_handovers();
  Accepted accepted;
  if (incoming_.empty()) return accepted;
  const Deadline now = Clock::now();
  std::erase_if(incoming_, [now](const Incoming& one) { return one.handover->is_over(now); });
  const auto found = std::find_if(incoming_.begin(), incoming_.end(), [](const Incoming& one) {
    return one.handover->state() == Handover::State::kReady;
  });
  if (found == incoming_.end()) return accepted;
  accepted.peer = found->peer;
  accepted.channel = std::make_unique<ShmRecvChannel>(home(), found->handover->take_link(),
                                                      Ends{identity_.rank, found->peer});
  incoming_.erase(found);
  return accepted;
}

// --- moving ---

Result<Buffer> ShmTransport::allocate(std::size_t bytes) {
  return segment_->allocate(bytes);
}

Result<bool> ShmTransport::progress() {
  reactor_.dispatch();
  const std::uint32_t doorbell = segment_->head().doorbell.load();
  if (doorbell == seen_doorbell_ && events_.endings == seen_endings_) return false;
  seen_doorbell_ = doorbell;
  seen_endings_ = events_.endings;
  for (Pumped* channel : pumped_) channel->pump();
  if (!events_.failure.is_ok()) return events_.failure;
  return true;
}

bool ShmTransport::enter_sleep() {
  SegmentHead& head = segment_->head();
  head.sleeping.store(1);
  return head.doorbell.load() == seen_doorbell_;
}

void ShmTransport::leave_sleep() {
  segment_->head().sleeping.store(0);
}

}  // namespace ringpress::ring::transport::shm
