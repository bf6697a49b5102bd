// Which tensor a piece that CollNet is given belongs to, from what NCCL tells its profiler.
//
// NCCL names a tensor in a Coll event (in the thread that launches it) and then, in the progress
// thread of the communicator, one ProxyOp event for each channel and direction of it that this rank
// has to do with, all before the first piece. The pieces of a tensor follow each other in a fixed
// order: step 0 of groups 0, 1, ... of 8 channels each, then step 1. A piece has as many chunks as
// its group has channels. Where these chunks lie in the tensor depends on who else has some:
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
// All of this is the same on every rank of a CollNet communicator. A piece that was taken for one
// of another tensor would be cut where that one ends, and the rest of it never be summed. So where
// the events do not add up once, on every rank, the book is lost: nothing is known from there on.
//
// One progress thread may serve several communicators: those split off with shared resources use
// the CollNet communicator of their parent if they are of as many nodes, else one of their own.
// Pieces in the former are those of the tensor whose turn it is. Pieces in the latter could be of
// any of several that have as many nodes as each other: there, nothing is known.
#ifndef NCCL_PLUGIN_PLUGIN_TENSOR_BOOK_H_
#define NCCL_PLUGIN_PLUGIN_TENSOR_BOOK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace ringpress::nccl_plugin::plugin {

/// A collective, as a Coll event tells of it.
struct TensorEvent {
  const void* address = nullptr;  // Of the send buffer.
  std::size_t count = 0;          // Elements.
  std::size_t element_bytes = 0;
  std::uint64_t sequence = 0;  // Of the collective on its communicator; the replay of a graph does
                               // not advance it.
};

/// What a rank has of a tensor; equal on all ranks of a CollNet communicator.
enum class TensorPart {
  kNothing,  // NCCL does not tell.
  kShare,    // Other ranks of the node may have parts of it, too.
  kWhole,
};

/// A piece of a tensor.
struct TensorPiece {
  TensorEvent tensor;
  std::size_t index = 0;       // Of the pieces of the tensor.
  bool is_recurring = true;    // False: the tensor of a replayed graph, whose turn is not certain.
  std::size_t count = 0;       // Elements that belong to the tensor; all of a share's, though zeros
                               // may lie behind the end. May be none.
  std::size_t lane_count = 0;  // Elements of all its pieces that go the way of this one.
  std::uint64_t layout = 0;    // How the tensor is cut.
};

/// The tensors of one rank of a communicator. Any thread.
class TensorBook {
 public:
  /// A communicator of `ranks` ranks on `nodes` nodes.
  TensorBook(int nodes, int ranks) : nodes_(nodes), ranks_(ranks) {}

  int nodes() const { return nodes_; }
  TensorPart part() const { return nodes_ == ranks_ ? TensorPart::kWhole : TensorPart::kShare; }

  /// A Coll event of a tensor that goes to CollNet. Gives what stands for it in ProxyOp events;
  /// never 0.
  std::uint64_t start_tensor(const TensorEvent& event);

  /// A ProxyOp event of the tensor that start_tensor() gave `tensor` for. One of a tensor that is
  /// forgotten, or that has had its channels before those of another, loses the book after the
  /// pieces of the tensors before it.
  struct ChannelEvent {
    std::uint64_t tensor = 0;
    unsigned channel = 0;
    std::size_t steps = 0;
    std::size_t chunk_bytes = 0;
  };
  void add_channel(const ChannelEvent& event);

  /// True in the thread that add_channel() was last called in: that of the pieces, too.
  bool is_of_this_thread() const;

  /// What is handed over.
  struct Slice {
    std::size_t bytes = 0;
    std::size_t lanes = 1;  // A tensor's pieces take turns in so many ways.
    TensorPart part = TensorPart::kWhole;
  };
  /// The tensor of the next piece. Nothing if that is not known for certain; then the book is lost.
  std::optional<TensorPiece> take_piece(const Slice& slice);
  /// For good: it remembers nothing any more.
  void lose();
  bool is_lost() const;
  /// Tensors of all books in the order in which their first channels were told: that of the tensor
  /// whose piece is next. Nothing while there is none.
  std::optional<std::uint64_t> next_turn() const;

 private:
  // Events whose channels may still come. A rank that is no head is told of tensors, but never of
  // channels. All others remember as many as NCCL may be ahead of its progress thread: it can do
  // with less for want of operations in its pools, but for groups.
  static constexpr std::size_t kRememberedAtFirst = 1024;
  static constexpr std::size_t kMostWithoutChannels = 16 * 1024;
  static constexpr std::size_t kMostRemembered = 1024 * 1024;
  // Whose pieces are still to come: more than NCCL's pools have operations for.
  static constexpr std::size_t kMostRunning = 64 * 1024;
  static constexpr std::size_t kGroupChannels = 8;
  static constexpr std::size_t kMostChannels = 64;

  struct Entry {
    std::uint64_t id = 0;
    TensorEvent event;
    bool has_channels = false;
  };
  /// A tensor in the progress thread.
  struct Running {
    Entry entry;
    std::uint64_t channels = 0;  // A bit each.
    std::size_t channel_count = 0;
    std::size_t steps = 0;
    std::size_t chunk_bytes = 0;
    std::uint64_t turn = 0;
    std::size_t taken = 0;  // Pieces.
    bool is_even = true;    // All channels said the same.

    std::size_t group_count() const {
      return (channel_count + kGroupChannels - 1) / kGroupChannels;
    }
    std::size_t piece_count() const { return steps * group_count(); }
    std::size_t group_channels(std::size_t group) const;
    /// Elements of a piece.
    std::size_t piece_count_of(std::size_t piece, TensorPart part) const;
    std::size_t lane_count(std::size_t lane, const Slice& slice) const;
    bool adds_up(TensorPart part) const;
  };

  // Those below are called with the mutex held.
  void make_room_for(std::uint64_t id);
  void forget_all();
  Running* running_of(const ChannelEvent& event);
  std::optional<TensorPiece> next_piece(Running* running, const Slice& slice);
  Running& running_at(std::size_t index);
  Running* append_running();

  const int nodes_;
  const int ranks_;
  std::atomic<std::uint64_t> thread_{0};  // Its number; 0: none yet.
  mutable std::mutex mutex_;
  bool is_lost_ = false;
  bool is_disturbed_ = false;  // It will be lost after the tensors that are running.
  std::uint64_t last_id_ = 0;
  std::uint64_t last_sequence_ = 0;
  bool has_sequence_ = false;
  std::uint64_t last_with_channels_ = 0;           // Those before it have all their channels.
  std::vector<Entry> events_{kRememberedAtFirst};  // By id, modulo the size.
  // A ring that grows: the tensor whose pieces come is at running_begin_.
  std::vector<Running> running_{8};
  std::size_t running_begin_ = 0;
  std::size_t running_count_ = 0;
};

// The books of this process. Any thread.

std::shared_ptr<TensorBook> open_tensor_book(std::uint64_t comm_id, int nodes, int ranks);
void close_tensor_book(const std::shared_ptr<TensorBook>& book);
/// What the books tell of a CollNet communicator of so many nodes, made for that communicator or
/// for one split off from it. Without an id: only where all books are of one communicator.
TensorPart told_part(std::optional<std::uint64_t> comm_id, int nodes);
/// A CollNet communicator of so many nodes that asks for pieces comes, and goes. While there are
/// several in this process, nothing is known in a thread that has tensors of more than one book:
/// its pieces may be asked for in any order.
void come_for_pieces(int nodes);
void leave_pieces(int nodes);
/// The next piece in this progress thread of a communicator of so many nodes, which may be several:
/// that of the tensor whose turn it is. If it is not known, all of them are lost. No allocation.
std::optional<TensorPiece> take_piece_of_this_thread(int nodes, const TensorBook::Slice& slice);

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_TENSOR_BOOK_H_
