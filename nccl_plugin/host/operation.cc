#include "nccl_plugin/host/operation.h"

#include <cstring>
#include <vector>

namespace ringpress::nccl_plugin::host {
namespace {

/// Collects the transfers of a collective that is made of sends and receives.
class Transfers {
 public:
  Transfers(Communicator& communicator, const Operation& operation)
      : communicator_(communicator),
        operation_(operation),
        block_bytes_(operation.count * dtype_size(operation.dtype)) {}

  const std::byte* send_block(int index) const {
    return static_cast<const std::byte*>(operation_.send) + block_bytes_ * to_size(index);
  }
  std::byte* receive_block(int index) const {
    return static_cast<std::byte*>(operation_.receive) + block_bytes_ * to_size(index);
  }

  void send(const std::byte* block, int peer) {
    // Transfer holds one pointer for both directions; a send only reads it.
    transfers_.push_back(
        {true, const_cast<std::byte*>(block), operation_.count, operation_.dtype, peer});
  }
  void receive(std::byte* block, int peer) {
    transfers_.push_back({false, block, operation_.count, operation_.dtype, peer});
  }
  /// This rank's own block; equal pointers when the call is in place.
  void keep(const std::byte* from, std::byte* to) const {
    if (from != to) std::memcpy(to, from, block_bytes_);
  }

  Status run() const {
    return transfers_.empty() ? Status::ok() : communicator_.exchange(transfers_);
  }

 private:
  static std::size_t to_size(int index) { return static_cast<std::size_t>(index); }

  Communicator& communicator_;
  const Operation& operation_;
  const std::size_t block_bytes_;
  std::vector<Transfer> transfers_;
};

}  // namespace

Status run_operation(Communicator& communicator, const Operation& operation) {
  if (operation.options == CallOptions{}) return operation.run(communicator, operation);
  const CallsWithOptions scope(operation.options);
  return operation.run(communicator, operation);
}

Status all_to_all(Communicator& communicator, const Operation& operation) {
  Transfers transfers(communicator, operation);
  const int rank = communicator.rank();
  for (int peer = 0; peer < communicator.size(); ++peer) {
    if (peer == rank) continue;
    transfers.send(transfers.send_block(peer), peer);
    transfers.receive(transfers.receive_block(peer), peer);
  }
  transfers.keep(transfers.send_block(rank), transfers.receive_block(rank));
  return transfers.run();
}

Status gather(Communicator& communicator, const Operation& operation) {
  Transfers transfers(communicator, operation);
  const int rank = communicator.rank();
  if (rank != operation.root) {
    transfers.send(transfers.send_block(0), operation.root);
    return transfers.run();
  }
  for (int peer = 0; peer < communicator.size(); ++peer) {
    if (peer != rank) transfers.receive(transfers.receive_block(peer), peer);
  }
  transfers.keep(transfers.send_block(0), transfers.receive_block(rank));
  return transfers.run();
}

Status scatter(Communicator& communicator, const Operation& operation) {
  Transfers transfers(communicator, operation);
  const int rank = communicator.rank();
  if (rank != operation.root) {
    transfers.receive(transfers.receive_block(0), operation.root);
    return transfers.run();
  }
  for (int peer = 0; peer < communicator.size(); ++peer) {
    if (peer != rank) transfers.send(transfers.send_block(peer), peer);
  }
  transfers.keep(transfers.send_block(rank), transfers.receive_block(0));
  return transfers.run();
}

Transfer to_transfer(const Operation& operation) {
  const bool is_send = operation.send != nullptr;
  void* const data = is_send ? const_cast<void*>(operation.send) : operation.receive;
  return {is_send, data, operation.count, operation.dtype, operation.root};
}

}  // namespace ringpress::nccl_plugin::host
