#include "nccl_plugin/interposer/meeting/gossip_peers.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "nccl_plugin/errors/firewall.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

/// The most that exchange() and gather() take of a rank.
constexpr std::size_t kSmallBytes = 256;

/// Within a group, whose end says the rest.
Status accepted(ncclResult_t result, const char* function) {
  return result == ncclInProgress ? Status::ok() : answered(function, result);
}

Status check_small(std::size_t bytes) {
  if (bytes <= kSmallBytes) return Status::ok();
  return {Code::kInternal, "more than " + std::to_string(kSmallBytes) + " bytes of a rank"};
}

}  // namespace

Result<std::unique_ptr<GossipPeers>> GossipPeers::make(const ringpressRealNccl& real,
                                                       ncclComm_t comm,
                                                       std::shared_ptr<GossipComm> known,
                                                       std::shared_ptr<Device> device) {
  std::unique_ptr<GossipPeers> made(
      new GossipPeers(real, comm, std::move(known), std::move(device)));
  RINGPRESS_RETURN_IF_ERROR(made->settle(real.CommCount(comm, &made->size_), "ncclCommCount"));
  RINGPRESS_RETURN_IF_ERROR(
      made->settle(real.CommUserRank(comm, &made->rank_), "ncclCommUserRank"));
  const std::size_t places = static_cast<std::size_t>(made->size_) + 1;
  RINGPRESS_RETURN_IF_ERROR(made->find_room(places * kSmallBytes));
  return made;
}

/// Where the device has none, on the host, which streams reach too: a rank without memory for a
/// model can say so.
Status GossipPeers::find_room(std::size_t bytes) {
  const Result<void*> memory = device_->allocate(bytes);
  if (memory.is_ok()) {
    small_ = {static_cast<std::byte*>(memory.value()),
              [device = device_](std::byte* old) { device->free(old); }};
    return Status::ok();
  }
  RINGPRESS_ASSIGN_OR_RETURN(void* const on_host, device_->allocate_host(bytes));
  small_ = {static_cast<std::byte*>(on_host),
            [device = device_](std::byte* old) { device->free_host(old); }};
  return Status::ok();
}

Status GossipPeers::check() const {
  if (!known_->has_ended()) return Status::ok();
  return {Code::kInvalidArgument, "the communicator of gossip has ended"};
}

Status GossipPeers::settle(ncclResult_t result, const char* function) const {
  while (result == ncclInProgress) {
    RINGPRESS_RETURN_IF_ERROR(check());
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    const ncclResult_t asked = real_.CommGetAsyncError(comm_, &result);
    if (asked != ncclSuccess) result = asked;
  }
  return accepted(result, function);
}

Status GossipPeers::send(int peer, const void* memory, std::size_t bytes) const {
  if (bytes == 0) return Status::ok();
  return accepted(
      real_.Send(memory, bytes, ncclInt8, peer, comm_, static_cast<cudaStream_t>(stream_)),
      "ncclSend");
}

Status GossipPeers::receive(int peer, void* memory, std::size_t bytes) const {
  if (bytes == 0) return Status::ok();
  return accepted(
      real_.Recv(memory, bytes, ncclInt8, peer, comm_, static_cast<cudaStream_t>(stream_)),
      "ncclRecv");
}

template <typename Body>
Status GossipPeers::in_group(Body&& body) const {
  const GossipComm::Use use(*known_);
  if (use.is_refused()) return check();
  RINGPRESS_RETURN_IF_ERROR(settle(real_.GroupStart(), "ncclGroupStart"));
  const Status asked = std::forward<Body>(body)();
  const Status ended = settle(real_.GroupEnd(), "ncclGroupEnd");
  return asked.is_ok() ? ended : asked;
}

/// What came after an abort is nothing that a peer has sent.
Status GossipPeers::wait() const {
  RINGPRESS_RETURN_IF_ERROR(device_->synchronize(stream_));
  return check();
}

Status GossipPeers::swap(int peer, const void* sent, std::size_t sent_bytes, void* received,
                         std::size_t received_bytes) const {
  return in_group([&]() -> Status {
    RINGPRESS_RETURN_IF_ERROR(send(peer, sent, sent_bytes));
    return receive(peer, received, received_bytes);
  });
}

Status GossipPeers::exchange_memory(int peer, const void* sent, std::size_t sent_bytes,
                                    void* received, std::size_t received_bytes) {
  RINGPRESS_RETURN_IF_ERROR(swap(peer, sent, sent_bytes, received, received_bytes));
  return wait();
}

Status GossipPeers::exchange(int peer, std::span<const std::byte> sent,
                             std::span<std::byte> received) {
  RINGPRESS_RETURN_IF_ERROR(check_small(std::max(sent.size(), received.size())));
  std::byte* const own = small_.get();
  std::byte* const theirs = own + kSmallBytes;
  RINGPRESS_RETURN_IF_ERROR(device_->copy(stream_, own, sent.data(), sent.size()));
  RINGPRESS_RETURN_IF_ERROR(swap(peer, own, sent.size(), theirs, received.size()));
  RINGPRESS_RETURN_IF_ERROR(device_->copy(stream_, received.data(), theirs, received.size()));
  return wait();
}

Status GossipPeers::gather(std::span<const std::byte> own, std::span<std::byte> all) {
  RINGPRESS_RETURN_IF_ERROR(check_small(own.size()));
  std::byte* const from = small_.get();
  std::byte* const to = from + kSmallBytes;
  RINGPRESS_RETURN_IF_ERROR(device_->copy(stream_, from, own.data(), own.size()));
  RINGPRESS_RETURN_IF_ERROR(in_group([&] {
    return accepted(
        real_.AllGather(from, to, own.size(), ncclInt8, comm_, static_cast<cudaStream_t>(stream_)),
        "ncclAllGather");
  }));
  RINGPRESS_RETURN_IF_ERROR(device_->copy(stream_, all.data(), to, all.size()));
  return wait();
}

Status GossipPeers::broadcast(void* memory, std::size_t bytes) {
  const Status asked = in_group([&]() -> Status {
    if (rank_ != 0) return receive(0, memory, bytes);
    for (int peer = 1; peer < size_; ++peer) RINGPRESS_RETURN_IF_ERROR(send(peer, memory, bytes));
    return Status::ok();
  });
  RINGPRESS_RETURN_IF_ERROR(asked);
  return wait();
}

/// The real library's own, which is not compressed.
Status GossipPeers::sum(double* values, std::size_t count) {
  RINGPRESS_RETURN_IF_ERROR(in_group([&] {
    return accepted(real_.AllReduce(values, values, count, ncclFloat64, ncclSum, comm_,
                                    static_cast<cudaStream_t>(stream_)),
                    "ncclAllReduce");
  }));
  return wait();
}

}  // namespace ringpress::nccl_plugin::interposer
