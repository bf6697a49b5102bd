// What all versions of the tuner plugin do. NCCL asks it before each collective; it answers with
// costs that put CollNet first or last. No answer is an error: NCCL fails the operation, or the
// whole communicator, where a tuner does.
#ifndef NCCL_PLUGIN_PLUGIN_TUNER_H_
#define NCCL_PLUGIN_PLUGIN_TUNER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "nccl_plugin/abi/tuner_v3.h"
#include "nccl_plugin/abi/types.h"
#include "nccl_plugin/plugin/collnet_policy.h"
#include "nccl_plugin/plugin/object.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::plugin {

/// The cost of what NCCL should take only if there is nothing else: a quarter of an hour. NCCL up
/// to 2.28 takes nothing from one hour on, and fails where there is nothing else.
constexpr float kAvoided = 1e9F;

/// The cost table of one collective, NCCL's own memory.
struct CostTable {
  float* costs = nullptr;  // algorithms x protocols, rows together.
  int algorithms = 0;
  int protocols = 0;
};

/// Of one communicator. Any thread may ask.
class Tuner : public Object {
 public:
  static constexpr ObjectKind kKind = ObjectKind::kTuner;

  /// `comm_id`: what the net and CollNet plugins get too (version 5 and later); 0 if unknown.
  /// `silenced`: why NCCL has no CollNet, if that is known before: for the log.
  Tuner(std::uint64_t comm_id, CollNetPolicy policy, std::string silenced = "");

  /// Changes no entry but those of CollNet with the protocol Simple, and of those none that is not
  /// available. `channels` (may be null) is changed only where CollNet is put first.
  void advise(abi::Function function, std::size_t bytes, CostTable table, int* channels) const;

  /// Version 2: names an algorithm where the later versions change costs. `user_chose`: the user
  /// restricted NCCL's algorithms, which NCCL itself forgets when a tuner names one.
  void advise_v2(abi::Function function, std::size_t bytes, bool collnet_supported, bool user_chose,
                 int* algorithm, int* protocol, int* channels) const;

  /// Enlarges the chunk of a call that goes to CollNet because of this tuner. Of every call, it
  /// remembers that the communicator has so many channels. All ranks are asked of the same calls in
  /// the same order, and of a group's chunks after all of its advice.
  void advise_chunk(abi::Function function, std::size_t bytes, int algorithm, int protocol,
                    int channels, std::size_t* chunk_bytes) const;

  std::uint64_t comm_id() const { return comm_id_; }

 private:
  void note_absence(std::size_t bytes) const;
  void note_channels(int algorithm, int channels) const;

  std::uint64_t comm_id_;
  CollNetPolicy policy_;
  std::string silenced_;
  mutable std::atomic<bool> absence_noted_{false};
  mutable std::atomic<int> seen_channels_{0};  // The most of any call.
};

/// The channels that NCCL's variables of this process guarantee. Nodes compare them when CollNet
/// connects: NCCL's own initialisation may pass where they differ.
int guaranteed_channels();

/// kInvalidArgument, with those there are, where RINGPRESS_SOCKET_IFNAME matches no network
/// interface. (Where NCCL's own variable matches none, NCCL itself has refused.)
Status check_own_interface();

/// With the settings and NCCL's variables of this process. Variables of the user's that leave NCCL
/// no CollNet are a warning, once a process.
std::unique_ptr<Tuner> make_tuner(std::uint64_t comm_id, std::size_t ranks, std::size_t nodes);

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_TUNER_H_
