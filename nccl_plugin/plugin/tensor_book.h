// Which tensor a piece that CollNet is given belongs to, from what NCCL tells its profiler.
//
// NCCL names a tensor in a Coll event (in the thread that launches it) and then, in the progress
// thread of the communicator, one ProxyOp event for each channel and direction of it, all before
// the first piece. The pieces of a tensor follow each other in a fixed order:
//
//   step k of group g (8 channels each) holds the elements from (k * channels + 8 g) * chunk on,
//   as many chunks as the group has channels; what lies behind the tensor's end is garbage.
//
// All of this is the same on every rank. Where the events do not add up, nothing is known of the
// piece, on every rank.
#ifndef NCCL_PLUGIN_PLUGIN_TENSOR_BOOK_H_
#define NCCL_PLUGIN_PLUGIN_TENSOR_BOOK_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
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
  bool is_chain = false;       // An all-reduce by CollNet's chain: the layout above is that one's.
};

/// A piece of a tensor.
struct TensorPiece {
  TensorEvent tensor;
  std::size_t index = 0;     // Of the pieces of the tensor.
  bool is_recurring = true;  // False: the tensor of a replayed graph, whose turn is not certain.
  std::size_t first = 0;     // Elements [first, first + count) of the tensor; may be none.
  std::size_t count = 0;
  std::size_t lane_count = 0;  // Elements of all its pieces that go the way of this one.
};

/// The tensors of one rank of a communicator. Any thread.
class TensorBook {
 public:
  /// A Coll event. Gives what stands for it in ProxyOp events; never 0.
  std::uint64_t start_tensor(const TensorEvent& event);

  /// A ProxyOp event of the tensor that start_tensor() gave `tensor` for. Unknown ones are ignored.
  struct ChannelEvent {
    std::uint64_t tensor = 0;
    unsigned channel = 0;
    std::size_t steps = 0;
    std::size_t chunk_bytes = 0;
  };
  void add_channel(const ChannelEvent& event);

  /// True in the thread that add_channel() was last called in: that of the pieces, too.
  bool is_of_this_thread() const { return thread_.load() == std::this_thread::get_id(); }

  /// The tensor of the next piece, which has `bytes` bytes in all. Nothing if that is not known for
  /// certain; then the pieces of the tensor that was next are not known either. A tensor's pieces
  /// take turns in `lanes` ways.
  std::optional<TensorPiece> take_piece(std::size_t bytes, std::size_t lanes);

 private:
  static constexpr std::size_t kRemembered = 1024;  // Events whose channels may still come.
  static constexpr std::size_t kGroupChannels = 8;
  static constexpr std::size_t kMostChannels = 64;

  struct Entry {
    std::uint64_t id = 0;
    TensorEvent event;
  };
  /// A tensor in the progress thread.
  struct Running {
    Entry entry;
    std::uint64_t channels = 0;  // A bit each.
    std::size_t channel_count = 0;
    std::size_t steps = 0;
    std::size_t chunk_bytes = 0;
    std::size_t taken = 0;  // Pieces.
    bool is_even = true;    // All channels said the same.

    std::size_t group_count() const {
      return (channel_count + kGroupChannels - 1) / kGroupChannels;
    }
    std::size_t piece_count() const { return steps * group_count(); }
    std::size_t group_channels(std::size_t group) const;
    /// First element and number of elements of a piece.
    std::pair<std::size_t, std::size_t> extent(std::size_t piece) const;
    std::size_t lane_count(std::size_t lane, std::size_t lanes) const;
    bool adds_up() const;
  };

  std::optional<TensorPiece> next_piece(Running* running, std::size_t bytes, std::size_t lanes);
  Running& running_at(std::size_t index);
  Running* append_running();

  std::atomic<std::thread::id> thread_;
  std::mutex mutex_;
  std::uint64_t last_id_ = 0;
  std::uint64_t last_sequence_ = 0;
  bool has_sequence_ = false;
  std::array<Entry, kRemembered> events_;
  // A ring that grows: the tensor whose pieces come is at running_begin_.
  std::vector<Running> running_{8};
  std::size_t running_begin_ = 0;
  std::size_t running_count_ = 0;
};

// The books of this process. Several ranks of a communicator may live in one process, so a book is
// found by the communicator's id, where NCCL tells it, and by its progress thread. Any thread.

std::shared_ptr<TensorBook> open_tensor_book(std::uint64_t comm_id);
void close_tensor_book(const std::shared_ptr<TensorBook>& book);
/// True if there is one for that communicator; for any, if its id is not known.
bool has_tensor_book(std::optional<std::uint64_t> comm_id);
/// The one whose channels were told in this thread; null if there is none or are several.
std::shared_ptr<TensorBook> tensor_book_of_this_thread(std::optional<std::uint64_t> comm_id);

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_TENSOR_BOOK_H_
