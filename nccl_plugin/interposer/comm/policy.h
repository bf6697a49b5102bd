// What is known of all calls of a communicator before there are any: by its ranks, their hosts and
// the settings. All of it is equal on all ranks.
#ifndef NCCL_PLUGIN_INTERPOSER_COMM_POLICY_H_
#define NCCL_PLUGIN_INTERPOSER_COMM_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/interposer/calls/call.h"
#include "nccl_plugin/interposer/host_groups.h"
#include "nccl_plugin/session/calls/comm_shape.h"
#include "ringpress/internal/algorithms.h"
#include "ringpress/internal/planner.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::interposer {

/// What settings say of a communicator whose ranks are on these hosts and call it so (no value: not
/// all of them do): false if every call is left exact, and none put off. `can_split`: the real
/// library can.
bool may_compress(const Settings& settings, bool can_split, const std::vector<int>& hosts,
                  const std::optional<std::string>& name);
/// Whether it is to be split for `hier`.
bool wants_groups(const Settings& settings, bool can_split, const std::vector<int>& hosts);

/// How a call is made: by which of the algorithms, and whether it is projected or gathers.
struct Way {
  enum class Kind : std::uint8_t { kSum, kProjection, kGather };

  Algorithm algorithm = Algorithm::kSra;
  Kind kind = Kind::kSum;

  bool is_hierarchical() const { return traits_of(algorithm).is_hierarchical; }
  bool goes_round() const { return traits_of(algorithm).goes_round; }
  /// In statistics.
  const char* name() const { return kind == Kind::kGather ? "gather" : algorithm_name(algorithm); }
  bool operator==(const Way&) const = default;
};

/// Of one communicator.
class CommPolicy {
 public:
  /// `name`: that the program has given it. `settings` outlive this.
  CommPolicy(const Settings& settings, int size, bool can_split, const std::string& name);

  const std::string& name() const { return name_; }
  /// By rank, the host that it is on. Set once, by the agreement.
  void set_hosts(std::vector<int> hosts);
  const std::vector<int>& hosts() const { return hosts_; }
  bool crosses_hosts() const { return shape_.crosses_hosts; }
  /// Instead of host by host.
  void set_ring_order(std::vector<int> order) { ring_order_ = std::move(order); }
  /// Empty: by number.
  std::span<const int> ring_order() const { return ring_order_; }
  /// It was split so.
  void set_position(const HostPosition& position);
  /// No hosts: it was not split.
  const HostPosition& position() const { return position_; }

  /// What calls of this kind get that no rule is for, or would get if they were not only observed.
  std::string usual_codec(DType dtype, ReduceOp op) const;

  /// The planner's question.
  PlanRequest request(const Call& call) const;
  const Planner& planner() const { return *planner_; }

  /// `is_projected`: by the codec that was decided on.
  Way way(const Decision& decision, const Call& call, bool is_projected) const;
  /// Elements of a call that a residual is for.
  std::size_t residual_count(const Call& call, Way way) const;
  /// What each rank sends of such a call uncompressed, as StreamCall::raw_bytes().
  std::uint64_t raw_bytes(const PlanRequest& request) const;

 private:
  std::size_t host_part(const Call& call) const {
    return hier_part(call.count, static_cast<std::size_t>(position_.local_size));
  }

  const Settings& settings_;
  const std::string name_;
  const int size_;
  const bool can_split_;
  const std::unique_ptr<Planner> planner_;
  std::vector<int> hosts_;
  CommShape shape_;  // Of the hosts and groups.
  std::vector<int> ring_order_;
  HostPosition position_;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_COMM_POLICY_H_
