// The tensors that NCCL tells its profiler of: each in a Coll event, in the thread that launches
// it. What the progress thread makes of them: profiled_tensors.h.
#ifndef NCCL_PLUGIN_PLUGIN_TENSOR_REGISTRY_H_
#define NCCL_PLUGIN_PLUGIN_TENSOR_REGISTRY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace ringpress::nccl_plugin::plugin {

/// A collective, as a Coll event tells of it.
struct TensorEvent {
  const void* address = nullptr;  // Of the send buffer.
  std::size_t count = 0;          // Elements.
  std::size_t element_bytes = 0;
  std::uint64_t sequence = 0;  // Of the collective on its communicator; the replay of a graph does
                               // not advance it.
  std::uint64_t tag = 0;       // What the program calls the tensor; 0: nothing.
};

/// What a rank has of a tensor; equal on all ranks of a CollNet communicator.
enum class TensorPart {
  kNothing,  // NCCL does not tell.
  kShare,    // Other ranks of the node may have parts of it, too.
  kWhole,
};

/// Of which channels of a tensor NCCL tells, in each direction.
enum class ProfiledChannels {
  kAll,
  kFirst,  // NCCL 2.27.
};

/// The tensors of one rank of a communicator. Any thread.
class TensorRegistry {
 public:
  /// A communicator of `ranks` ranks on `nodes` nodes.
  TensorRegistry(int nodes, int ranks, ProfiledChannels profiled = ProfiledChannels::kAll);

  int nodes() const { return nodes_; }
  TensorPart part() const { return nodes_ == ranks_ ? TensorPart::kWhole : TensorPart::kShare; }
  ProfiledChannels profiled() const { return profiled_; }
  /// Of this registry alone in this process, now and later.
  std::uint64_t number() const { return number_; }

  /// A Coll event of a tensor that goes to CollNet. Gives what stands for it in ProxyOp events;
  /// never 0.
  std::uint64_t start_tensor(const TensorEvent& event);

  /// A tensor whose turn in the progress thread has come.
  struct Begun {
    TensorEvent event;
    bool is_recurring = true;  // False: the same sequence number as the one before it.
  };
  /// Once for each; nothing for another number, or for a tensor that is forgotten.
  std::optional<Begun> begin(std::uint64_t tensor);

 private:
  // Events whose channels may still come. A rank that is no head is told of tensors, but never of
  // channels. All others remember as many as NCCL may be ahead of its progress thread: it can do
  // with less for want of operations in its pools, but for groups.
  static constexpr std::size_t kRememberedAtFirst = 1024;
  static constexpr std::size_t kMostWithoutChannels = 16 * 1024;
  static constexpr std::size_t kMostRemembered = 1024 * 1024;

  struct Entry {
    std::uint64_t id = 0;
    TensorEvent event;
    bool has_begun = false;
  };

  void make_room_for(std::uint64_t id);

  const int nodes_;
  const int ranks_;
  const ProfiledChannels profiled_;
  const std::uint64_t number_;
  mutable std::mutex mutex_;
  std::uint64_t last_id_ = 0;
  std::uint64_t last_begun_ = 0;                   // Those before it have all their channels.
  std::optional<std::uint64_t> last_sequence_;     // Of the one that has begun last.
  std::vector<Entry> events_{kRememberedAtFirst};  // By id, modulo the size.
};

// The registries of this process. Any thread.

std::shared_ptr<TensorRegistry> open_tensor_registry(
    std::uint64_t comm_id, int nodes, int ranks,
    ProfiledChannels profiled = ProfiledChannels::kAll);
void close_tensor_registry(const std::shared_ptr<TensorRegistry>& registry);
/// What the registries tell of the tensors of a CollNet communicator of so many nodes. `comm_id`:
/// of the communicator that it was made for, or of one that this was split off from. Where that one
/// has another number of nodes, or is not known, it could be any of so many nodes: the least of
/// them.
TensorPart profiled_part(std::optional<std::uint64_t> comm_id, int nodes);

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_TENSOR_REGISTRY_H_
