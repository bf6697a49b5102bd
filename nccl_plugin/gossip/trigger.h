// When a worker asks for an exchange. Pure: counts and numbers in, a decision out.
#ifndef NCCL_PLUGIN_GOSSIP_TRIGGER_H_
#define NCCL_PLUGIN_GOSSIP_TRIGGER_H_

#include <cstdint>

namespace ringpress::nccl_plugin::gossip {

/// ringpressGossipConfig_t, without its codec.
struct TriggerRule {
  double theta = 0;
  std::uint64_t t_min = 1;
  std::uint64_t t_max = 0;   // 0: no limit.
  std::uint64_t period = 0;  // 0: by change.
};

/// Of one worker. (The abstract of the method says "according to the change of the local model";
/// that the change is the relative l2 norm, and what t_min and t_max do, is reconstructed.)
class Trigger {
 public:
  explicit Trigger(const TriggerRule& rule) : rule_(rule) {}

  /// `change`: ||x - x_ref|| / ||x_ref|| after the step that has ended; once a step.
  bool asks(double change) {
    ++steps_;
    ++since_;
    if (rule_.period > 0) return steps_ % rule_.period == 0;
    if (rule_.t_max > 0 && since_ >= rule_.t_max) return true;
    return since_ >= rule_.t_min && (rule_.theta == 0 || change > rule_.theta);
  }
  /// An exchange has taken place, whoever asked for it.
  void note_exchange() { since_ = 0; }

 private:
  const TriggerRule rule_;
  std::uint64_t steps_ = 0;
  std::uint64_t since_ = 0;  // Steps after the last exchange.
};

}  // namespace ringpress::nccl_plugin::gossip

#endif  // NCCL_PLUGIN_GOSSIP_TRIGGER_H_
