// Which tensor a piece that CollNet is given belongs to, from what NCCL tells its profiler.
//
// NCCL names a tensor in a Coll event (tensor_registry.h) and then, in the progress thread, one
// ProxyOp event for each channel and direction of it that this rank has to do with, all before the
// first piece. When these events come differs between ranks, and so does what else has been told by
// then: several communicators may share a thread, and some of them a CollNet communicator. So
// nothing is decided by what is told at some moment, or by whose turn it is. A piece says itself
// which operation it is of: NCCL keeps, for each channel of an operation, the address for the
// event's handle and the addresses for the requests of its pieces in one struct, and hands a
// pointer to the one with the event and a pointer to one of the others with the piece. Wherever
// NCCL should keep them elsewhere, no piece is near an event, on any rank, and nothing is known of
// any.
//
// The pieces of a tensor follow each other in a fixed order: step 0 of groups 0, 1, ... of 8
// channels each, then step 1. A piece comes with the last channel of its group and has as many
// chunks as its group has channels. Where these chunks lie in the tensor depends on who else has
// some:
//
//   a node of one rank       that rank has all of them. Step k of group g holds the elements from
//                            (k * channels + 8 g) * chunk on. Behind the tensor's end is garbage.
//   a node of several ranks  a head for each of several network devices. Of a chain, each has the
//                            channels of its device; with CollNetDirect and NVLS, all channels, and
//                            in them every h-th chunk for h heads. Neither h nor the channels of
//                            others are told to this rank, so it is not known where a chunk lies,
//                            nor where the tensor ends in it. But the n-th piece of a tensor holds
//                            the same elements each time, if it is cut in the same way.
//
// NCCL 2.27 tells of the first channel alone, in each direction, and not how many there are. All
// channels of a tensor have as many steps and as large chunks as the first, and stand behind it. So
// its first piece says how many there are if it has fewer than 8. If it has 8, the size of a whole
// tensor may say it: there must be one number with which so many steps just cover the tensor.
//
// All of this is the same on every rank of a CollNet communicator. A tensor whose events do not add
// up, as where its channels go to several network devices, has no known piece on any rank.
#ifndef NCCL_PLUGIN_PLUGIN_PROFILED_TENSORS_H_
#define NCCL_PLUGIN_PLUGIN_PROFILED_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "nccl_plugin/plugin/tensor_registry.h"

namespace ringpress::nccl_plugin::plugin {

/// A piece of a tensor.
struct TensorPiece {
  TensorEvent tensor;
  std::size_t index = 0;     // Of the pieces of the tensor.
  bool is_recurring = true;  // False: the tensor of a replayed graph, whose turn is not certain.
  std::size_t count = 0;     // Elements that belong to the tensor; all of a share's, though zeros
                             // may lie behind the end. May be none.
  std::size_t worker_count = 0;  // Elements of all its pieces that go the way of this one.
  std::uint64_t layout = 0;      // How the tensor is cut.
};

/// The operations of one progress thread, whatever communicators they are of. One thread.
class ProfiledTensors {
 public:
  /// A ProxyOp event of the tensor that start_tensor() of its registry gave `tensor` for.
  struct ChannelEvent {
    std::uint64_t tensor = 0;
    unsigned channel = 0;
    std::size_t steps = 0;
    std::size_t chunk_bytes = 0;
    const void* address = nullptr;  // For the event's handle.
  };
  void add_channel(TensorRegistry* registry, const ChannelEvent& event);
  /// An event of which nothing more is known, with a address for its handle.
  void forget(const void* address);

  /// What is handed over.
  struct Slice {
    const void* address = nullptr;  // For the request.
    std::size_t bytes = 0;
    std::size_t workers = 1;  // A tensor's pieces take turns in so many ways.
    TensorPart part = TensorPart::kWhole;
  };
  /// The piece, or nothing if it is not known for certain: nor are the others of its tensor then.
  /// No allocation.
  std::optional<TensorPiece> take_piece(const Slice& slice);

  /// Of operations; NCCL uses addresses again.
  std::size_t records() const { return records_.size(); }

 private:
  static constexpr std::size_t kGroupChannels = 8;
  static constexpr std::size_t kMostChannels = 64;
  // NCCL 2.27 to 2.32 have 40 to 96 bytes between a request's address and its channel's handle, and
  // some 540 between channels.
  static constexpr std::uintptr_t kSameChannelBytes = 256;
  static constexpr std::uintptr_t kSameOperationBytes = 4096;

  /// A tensor in the progress thread.
  struct Profiled {
    TensorEvent event;
    bool is_recurring = true;
    bool is_of_first = false;    // Only the first channel is profiled.
    bool adds_up = true;         // So far.
    std::uint64_t channels = 0;  // A bit each.
    std::size_t channel_count = 0;
    std::size_t steps = 0;
    std::size_t chunk_bytes = 0;
    std::uintptr_t last_address = 0;  // Of the last new channel.
    std::uintptr_t stride = 0;        // How far apart the addresses of all neighbours are.
    std::intptr_t first_piece = 0;    // Of the first channel alone: where its first piece was.
    std::size_t taken = 0;            // Pieces.
    std::size_t references = 0;       // That refer to it.

    std::size_t group_count() const {
      return (channel_count + kGroupChannels - 1) / kGroupChannels;
    }
    std::size_t piece_count() const { return steps * group_count(); }
    std::size_t group_channels(std::size_t group) const;
    /// Elements of a piece.
    std::size_t piece_count_of(std::size_t piece, TensorPart part) const;
    std::size_t worker_count(std::size_t worker, const Slice& slice) const;
    /// Steps of a whole tensor with so many channels.
    std::size_t steps_with(std::size_t total) const;
    bool is_complete(TensorPart part) const;
  };
  struct ChannelRecord {
    Profiled* profiled = nullptr;
    std::size_t channel = 0;  // Which of the tensor's channels of this rank, in their order.
  };
  /// Where a piece comes.
  struct Found {
    Profiled* profiled = nullptr;  // May be null.
    std::size_t channel = 0;       // The channel that an address near it is of.
    std::intptr_t away = 0;        // How far behind that address it is.
  };
  static constexpr std::size_t kOtherDirection = kMostChannels;  // As a channel: no piece's.
  using ChannelRecords = std::map<std::uintptr_t, ChannelRecord>;

  Profiled* begin_tensor(TensorRegistry* registry, std::uint64_t tensor);
  static std::size_t add_to(Profiled* profiled, const ChannelEvent& event);
  static bool is_beside_last(Profiled* profiled, std::uintptr_t address);
  void refer(ChannelRecord* record, Profiled* profiled);
  void leave(ChannelRecord* record);
  Found nearest(std::uintptr_t request) const;
  Found behind_first(std::uintptr_t request) const;
  static bool find_channels(Profiled* profiled, const Slice& slice);
  static bool comes_with(const Found& found, std::size_t channel, std::size_t group);
  static std::optional<TensorPiece> next_piece(const Found& found, const Slice& slice);

  ChannelRecords records_;
  Profiled* current_ = nullptr;  // Whose events come.
  std::uint64_t current_registry_ = 0;
  std::uint64_t current_tensor_ = 0;
  std::vector<std::unique_ptr<Profiled>> profiled_;
  std::vector<Profiled*> free_;  // Of profiled_; room for all of them.
};

/// Those of the calling thread.
ProfiledTensors& profiled_tensors_of_this_thread();

/// Events that this process had no memory to take note of, and other ranks have: from then on they
/// know what this one does not. For good. Any thread.
void note_lost_events();
bool has_lost_events();

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_PROFILED_TENSORS_H_
