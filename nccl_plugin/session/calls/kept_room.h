// Which tensors have something kept where there is a limit, and what gives way to what.
#ifndef NCCL_PLUGIN_SESSION_CALLS_KEPT_ROOM_H_
#define NCCL_PLUGIN_SESSION_CALLS_KEPT_ROOM_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string_view>

#include "nccl_plugin/session/calls/kept_tensor.h"

namespace ringpress::nccl_plugin {

/// What is kept, the most recently used first.
using KeptEntries = std::list<KeptTensor>;

/// Of one communicator.
///
/// Where not all fit, those of the sequence that is repeated take what there is by their order
/// (PlaceOrder), and keep it: if the ones used longest ago gave way, each would be gone just before
/// its next call. What gives way is what other sequences keep, and what has not been used though
/// its place has come again and again; of that, the one used longest ago first. Tensors that the
/// program has named are in no sequence: the first ones take what there is, and keep it until they
/// have not been used for several times as long as between their last uses.
class KeptRoom {
 public:
  /// `limit_bytes` 0: none.
  explicit KeptRoom(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// As PlaceOrder has them.
  void follow(CallsBy by, const CallPattern& pattern, std::size_t position, std::uint64_t calls);
  void forget(CallsBy by, std::uint64_t cycle) { order_.forget(by, cycle); }
  bool is_followed(const KeptPlace& place) const {
    return place.is_named() || order_.of(place).has_value();
  }

  /// A call of a tensor with a name comes; then, if something is kept of it, that is used.
  void count_named() { ++named_calls_; }
  void note_use(KeptTensor* entry);
  /// The entry's place has come, and it was not used.
  void note_pass(KeptTensor* entry);
  /// So much is kept at a place from now on, and so much less.
  void take(const KeptPlace& place, std::size_t bytes);
  void give_back(std::size_t bytes);
  std::size_t held() const { return held_; }
  std::size_t limit_bytes() const { return limit_bytes_; }

  bool has(std::size_t bytes) const;
  /// Whether a place has room for `bytes` more once all that gives way to it is gone, but for
  /// `spared`.
  bool can_have(std::size_t bytes, const KeptPlace& place, const KeptEntries& entries,
                const KeptTensor* spared) const;
  /// What gives way to a place first; there is something.
  KeptEntries::iterator next_to_go(const KeptPlace& place, KeptEntries* entries,
                                   const KeptTensor* spared);
  /// What gives way to any place first; the end: nothing.
  KeptEntries::iterator oldest_to_go(KeptEntries* entries, const KeptTensor* spared) const;

  /// A place goes without `bytes`, by this codec. Once all places of the sequence have come since,
  /// a warning says what they need; there is one.
  void go_without(std::size_t bytes, const KeptPlace& place, std::string_view codec,
                  const KeptEntries& entries);

 private:
  struct Without {
    std::size_t bytes = 0;      // That it needs.
    std::size_t times = 0;      // That it has gone without.
    std::uint64_t changes = 0;  // When it last did: there is no room until something changes.
  };

  bool gives_way(const KeptTensor& entry) const;
  bool comes_before(const KeptPlace& place, const KeptTensor& entry) const;
  void warn(std::string_view codec, const KeptEntries& entries);

  std::size_t limit_bytes_;
  std::size_t held_ = 0;
  PlaceOrder order_;
  std::map<KeptPlace, Without> without_;  // Of the sequence that is repeated, and with names.
  std::uint64_t named_calls_ = 0;         // Of tensors with names.
  std::uint64_t changes_ = 0;             // Of what is kept, and of what may give way.
  bool warned_ = false;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_KEPT_ROOM_H_
