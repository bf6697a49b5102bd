// Which all-reduces go to CollNet, where they are compressed, and in how large calls. Decides and
// does nothing else. Whatever it decides from is equal on all ranks: what NCCL says of the call and
// the communicator, and settings that agree: those of settings.inc, and the channels that NCCL's
// variables guarantee, are compared when CollNet connects.
#ifndef NCCL_PLUGIN_PLUGIN_COLLNET_POLICY_H_
#define NCCL_PLUGIN_PLUGIN_COLLNET_POLICY_H_

#include <cstddef>
#include <memory>
#include <string>

#include "nccl_plugin/abi/types.h"
#include "nccl_plugin/session/decision_chain.h"
#include "ringpress/internal/planner.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::plugin {

enum class Preference {
  kLeave,    // To NCCL, as if there were no tuner.
  kCollNet,  // Before everything else.
  kAvoid,    // CollNet only where there is nothing else.
};

/// The two ways in which NCCL uses CollNet.
enum class CollNetRoute { kChain, kDirect };

/// One that cannot be, as no node or fewer ranks than nodes, is left to NCCL.
struct JobShape {
  std::size_t ranks = 0;
  std::size_t nodes = 0;
  /// Channels that every communicator of this process has at least; 0: unknown.
  int least_channels = 0;
};

class CollNetPolicy {
 public:
  CollNetPolicy(CallSettings settings, JobShape shape);

  Preference preference(abi::Function function, std::size_t bytes) const;

  /// Channels for a call that goes to CollNet; 0: NCCL's own number.
  ///
  /// NCCL takes any other number unchecked, and one beyond the communicator's channels makes it
  /// crash. It does not tell how many there are; by itself it has at least two, but a program may
  /// limit them to one (ncclConfig_t::maxCTAs), and a tuner is not told of that either. So no more
  /// than JobShape::least_channels or, where more, `seen_channels`: what an earlier call of this
  /// communicator had, the same on all ranks.
  int channels(CollNetRoute route, std::size_t bytes, int seen_channels) const;

  /// The chunk of one channel, at least `nccl_chunk`, that makes calls large but leaves some for
  /// staging and network to overlap. NCCL cuts it to the size of its slots.
  std::size_t chunk_bytes(CollNetRoute route, std::size_t bytes, int channels,
                          std::size_t nccl_chunk) const;

  /// Whether any call goes there.
  bool wants_collnet() const;

  /// Why none does, if that is for the settings; else empty.
  std::string why_none() const;

  /// What it does, for the log.
  std::string description() const;

 private:
  std::size_t ranks_per_node() const;
  Decision decide(std::size_t bytes) const;
  Preference preference_of_largest() const;

  CallSettings settings_;
  JobShape shape_;
  std::unique_ptr<Planner> planner_;
  std::unique_ptr<CallAdvisers> codecs_;
};

/// NCCL's own chunk of one channel (as NCCL 2.27 to 2.30 compute it, slots of the default size). A
/// call has as many as there are channels, up to 8, and is full even where the message is not.
std::size_t nccl_chunk_bytes(CollNetRoute route, std::size_t bytes, std::size_t ranks_per_node,
                             int channels);

/// NCCL's variables of how many channels a communicator has; null: not set.
struct ChannelVariables {
  const char* min_nchannels = nullptr;
  const char* min_ctas = nullptr;
  const char* max_ctas = nullptr;
};

/// What they guarantee; 0: nothing. NCCL_MIN_NCHANNELS holds whatever else is set. NCCL_MIN_CTAS is
/// cut to the largest number, which is a program's to choose unless NCCL_MAX_CTAS is set.
int least_channels(const ChannelVariables& variables);

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_COLLNET_POLICY_H_
