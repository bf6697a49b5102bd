#include "nccl_plugin/interposer/comm/policy.h"

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/lazy/lazy_calls.h"
#include "ringpress/internal/ring_order.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

/// For what is decided before names are known, and for calls that no rule is for.
std::unique_ptr<Planner> planner_without_rules(const Settings& settings) {
  CallSettings without = settings;
  without.rule_list.clear();
  return tuner::make_planner(without);
}

std::unique_ptr<Planner> planner_for(const Settings& settings,
                                     const std::optional<std::string>& name) {
  CallSettings named = settings;
  named.comm_name = name;
  return tuner::make_planner(named);
}

/// As it could be split.
CommShape possible_shape(const Settings& settings, bool can_split, const std::vector<int>& hosts) {
  CommShape shape = stream_shape_of(settings, hosts);
  if (!can_split) shape.ranks_per_host = 0;
  return shape;
}

}  // namespace

bool may_compress(const Settings& settings, bool can_split, const std::vector<int>& hosts,
                  const std::optional<std::string>& name) {
  if (LazyCalls::is_wanted(settings)) return true;
  const std::unique_ptr<Planner> planner = planner_for(settings, name);
  PlanRequest request = largest_request(possible_shape(settings, can_split, hosts));
  const auto is_compressed = [&] {
    const Decision decision = planner->plan(request);
    return !decision.is_exact() || decision.is_observed();
  };
  // Between these sizes nothing changes.
  std::vector<std::size_t> sizes{request.count * sizeof(float)};
  for (const Rule& rule : settings.rule_list) {
    sizes.push_back(rule.min_bytes);
    if (rule.max_bytes < sizes[0]) sizes.push_back(rule.max_bytes + 1);
  }
  for (const CollectiveKind kind : kCompressibleKinds) {
    for (const DType dtype : kCompressibleTypes) {
      for (const std::size_t bytes : sizes) {
        request.kind = kind;
        request.dtype = dtype;
        request.count = (bytes + dtype_size(dtype) - 1) / dtype_size(dtype);
        if (is_compressed()) return true;
      }
    }
  }
  return false;
}

bool wants_groups(const Settings& settings, bool can_split, const std::vector<int>& hosts) {
  return wants_host_groups(settings, possible_shape(settings, can_split, hosts));
}

CommPolicy::CommPolicy(const Settings& settings, int size, bool can_split, const std::string& name)
    : settings_(settings),
      name_(name),
      size_(size),
      can_split_(can_split),
      planner_(planner_for(settings, name)) {}

void CommPolicy::set_hosts(std::vector<int> hosts) {
  hosts_ = std::move(hosts);
  shape_ = stream_shape_of(settings_, hosts_);
  shape_.ranks_per_host = 0;  // Until it is split.
  if (settings_.topology.by == RingOrderBy::kRanks) return;
  std::vector<ringpress::Location> places;
  places.reserve(hosts_.size());
  for (const int host : hosts_) places.push_back({std::to_string(host)});
  ring_order_ = ringpress::ring_order(places);
}

void CommPolicy::set_position(const HostPosition& position) {
  position_ = position;
  shape_.ranks_per_host = position.local_size;
}

std::string CommPolicy::usual_codec(DType dtype, ReduceOp op) const {
  PlanRequest request = largest_request(possible_shape(settings_, can_split_, hosts_));
  request.dtype = dtype;
  request.op = op;
  const std::unique_ptr<Planner> planner = planner_without_rules(settings_);
  return std::string(if_made(planner->plan(request)).codec);
}

PlanRequest CommPolicy::request(const Call& call) const {
  Reduction reduction;
  // Numbers above those of NCCL's own operations are of the program's pre-multiplied sums.
  reduction.pre_multiplied = call.op >= ncclNumOps;
  if (!reduction.pre_multiplied) reduction.op = static_cast<ReduceOp>(call.op);
  PlanRequest request = request_of(shape_, call.kind, whole_count(call.kind, call.count, size_),
                                   static_cast<DType>(call.dtype), reduction);
  request.call_class = call.call_class;
  return with_options(request, &call.options);
}

Way CommPolicy::way(const Decision& decision, const Call& call, bool is_projected) const {
  Way way{unsplit_algorithm(settings_)};
  if (is_projected) {
    way.kind = Way::Kind::kProjection;
  } else if (call.kind == CollectiveKind::kAllGather) {
    way.kind = Way::Kind::kGather;
  } else if (!way.goes_round() && traits_of(decision.algorithm).is_hierarchical) {
    if (position_.hosts > 0 && host_part(call) > 0) way.algorithm = decision.algorithm;
  }
  return way;
}

std::size_t CommPolicy::residual_count(const Call& call, Way way) const {
  return way.is_hierarchical() ? host_part(call) : call.count;
}

std::uint64_t CommPolicy::raw_bytes(const PlanRequest& request) const {
  const std::uint64_t bytes = request.count * dtype_size(request.dtype);
  const auto peers = static_cast<std::uint64_t>(size_ - 1);
  const std::uint64_t rounds = request.kind == CollectiveKind::kAllReduce ? 2 : 1;
  return bytes * rounds * peers / static_cast<std::uint64_t>(size_);
}

}  // namespace ringpress::nccl_plugin::interposer
