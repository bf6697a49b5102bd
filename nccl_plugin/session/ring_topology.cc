#include "nccl_plugin/session/ring_topology.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <iterator>
#include <numeric>

#include "nccl_plugin/errors/warn_once.h"
#include "nccl_plugin/session/settings/setting_file.h"
#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin {
namespace {

Status in_setting(const RingTopology& topology, const std::string& what) {
  return Status(Code::kInvalidArgument,
                "RINGPRESS_TOPOLOGY=" + to_text(topology.choice) + ":" + what);
}

Result<HostMap> read_map(const RingTopology& topology) {
  const Result<std::string> text = read_setting_file(topology.choice.file);
  if (!text.is_ok()) return in_setting(topology, " " + text.status().message());
  Result<HostMap> map = parse_host_map(text.value());
  if (!map.is_ok()) return in_setting(topology, map.status().message());
  return map;
}

std::string listed(const std::vector<int>& ranks) {
  std::string list;
  for (const int rank : ranks) list += (list.empty() ? "" : " ") + std::to_string(rank);
  return list;
}

Result<std::vector<Location>> places_in(const RingTopology& topology,
                                        const std::vector<std::string>& hosts) {
  if (topology.is_file()) return locations_of(topology.map, hosts);
  std::vector<Location> places;
  places.reserve(hosts.size());
  for (const std::string& host : hosts) places.push_back({host});
  return places;
}

std::string own_host_name(const std::string& host_id) {
  if (!host_id.empty()) return host_id;
  const char* const named = std::getenv("NCCL_HOSTID");
  if (named != nullptr && *named != '\0') return named;
  std::array<char, 256> name = {};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

RingTopology read_ring_topology(const Settings& settings) {
  RingTopology topology;
  topology.own_host = own_host_name(settings.nccl.host_id);
  topology.choice = settings.topology;
  topology.agreed = to_text(topology.choice);
  if (!topology.is_file()) return topology;
  Result<HostMap> map = read_map(topology);
  if (map.is_ok()) {
    topology.agreed = summary(map.value());
    topology.map = std::move(map).value();
  } else {
    topology.problem = map.status();
    topology.agreed = topology.problem.message();
  }
  return topology;
}

Status check_own_place(const RingTopology& topology) {
  if (!topology.problem.is_ok() || !topology.is_file() || !topology.map.hosts.empty()) {
    return topology.problem;
  }
  const Status placed = places_in(topology, {topology.own_host}).status();
  return placed.is_ok() ? placed : in_setting(topology, " " + placed.message());
}

int own_host_number(const RingTopology& topology) {
  const std::string& own = topology.own_host;
  const auto& above = topology.map.above;
  auto found = above.find(own);
  if (found == above.end()) found = above.find(own.substr(0, own.find('.')));
  return found == above.end() ? -1 : static_cast<int>(std::distance(above.begin(), found));
}

std::string host_of_number(const RingTopology& topology, int number) {
  const auto& above = topology.map.above;
  if (number < 0 || static_cast<std::size_t>(number) >= above.size()) return "(not named here)";
  return std::next(above.begin(), number)->first;
}

Result<std::vector<int>> ring_order_of(const RingTopology& topology,
                                       const std::vector<std::string>& hosts) {
  const std::size_t named = topology.map.hosts.size();
  if (named != 0 && named != hosts.size()) {
    warn_once("RINGPRESS_TOPOLOGY=" + to_text(topology.choice) + ": names " +
              std::to_string(named) + " ranks; the ring of a communicator of " +
              std::to_string(hosts.size()) + " goes by number");
    return std::vector<int>();
  }
  auto places = places_in(topology, hosts);
  if (!places.is_ok()) return in_setting(topology, " " + places.status().message());
  std::vector<int> order = ring_order(places.value());
  std::vector<int> by_number(order.size());
  std::iota(by_number.begin(), by_number.end(), 0);
  log_line(LogLevel::kInfo,
           "the ring visits ranks %s: it crosses %zu uplinks each way, by number %zu",
           listed(order).c_str(), crossings(places.value(), order),
           crossings(places.value(), by_number));
  return order;
}

}  // namespace ringpress::nccl_plugin
