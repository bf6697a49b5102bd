// What a communicator can expect of its calls, before there are any.
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "nccl_plugin/interposer/comm.h"
#include "ringpress/internal/ring_order.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

constexpr std::array kReducing = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                                  CollectiveKind::kAllGather};
constexpr std::array kLossyTypes = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};

/// For what is decided before names are known, and for calls that no rule is for.
std::unique_ptr<Planner> make_planner_without_rules(const Settings& settings) {
  Settings without = settings;
  without.rule_list.clear();
  return tuner::make_planner(without);
}

}  // namespace

std::unique_ptr<Planner> planner_for(const Settings& settings,
                                     const std::optional<std::string>& name) {
  Settings named = settings;
  named.comm_name = name;
  return tuner::make_planner(named);
}

void Comm::set_hosts(std::vector<int> hosts) {
  hosts_ = std::move(hosts);
  comm_shape_ = comm_shape_of(settings_, hosts_);
  if (settings_.topology == "ranks") return;
  std::vector<ringpress::Place> places;
  places.reserve(hosts_.size());
  for (const int host : hosts_) places.push_back({std::to_string(host)});
  ring_order_ = ring_order(places);
}

/// An all-reduce that has every reason to be compressed, whatever rules say of its size.
PlanRequest Comm::largest_request(const std::vector<int>& hosts) const {
  CommShape shape = comm_shape_of(settings_, hosts);
  if (real_.CommSplit != nullptr) shape.ranks_per_host = find_place(hosts, 0).local_size;
  PlanRequest request =
      request_of(shape, CollectiveKind::kAllReduce, std::size_t{1} << 40, DType::kFloat32);
  request.recurrences = kRecursAlways;
  return request;
}

void Comm::set_groups(const HostGroups& groups) {
  groups_ = groups;
  if (groups_.exist()) comm_shape_.ranks_per_host = groups_.place.local_size;
}

bool Comm::may_compress(const std::vector<int>& hosts,
                        const std::optional<std::string>& name) const {
  if (LazyCalls::is_wanted(settings_)) return true;
  const std::unique_ptr<Planner> planner = planner_for(settings_, name);
  PlanRequest request = largest_request(hosts);
  const auto is_compressed = [&] {
    const Decision decision = planner->plan(request);
    return !decision.is_exact() || decision.is_observed();
  };
  // Between these sizes nothing changes.
  std::vector<std::size_t> sizes{request.count * sizeof(float)};
  for (const Rule& rule : settings_.rule_list) {
    sizes.push_back(rule.min_bytes);
    if (rule.max_bytes < sizes[0]) sizes.push_back(rule.max_bytes + 1);
  }
  for (const CollectiveKind kind : kReducing) {
    for (const DType dtype : kLossyTypes) {
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

bool Comm::wants_groups(const std::vector<int>& hosts) const {
  const std::unique_ptr<Planner> planner = make_planner_without_rules(settings_);
  const Decision decision = planner->plan(largest_request(hosts));
  // What is projected is small between hosts and inside them.
  return !decision.is_exact() && decision.algorithm == Algorithm::kHier &&
         !compress_kernels::projects(std::string(decision.codec));
}

/// What calls get that no rule is for.
std::string Comm::usual_codec(DType dtype, ReduceOp op) const {
  PlanRequest request = largest_request(hosts_);
  request.dtype = dtype;
  request.op = op;
  return std::string(make_planner_without_rules(settings_)->plan(request).codec);
}

}  // namespace ringpress::nccl_plugin::interposer
