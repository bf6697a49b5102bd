#include "nccl_plugin/command/schedule/cluster_file.h"

#include <fmt/core.h>

#include <string>
#include <vector>

#include "ringpress/internal/names.h"

namespace ringpress::nccl_plugin::command {
namespace {

constexpr Range kLink = {1e-6, 1e6, false, "a number from 1e-6 to 1e6"};

std::uint64_t read_bits_per_second(JsonReader* reader) {
  return static_cast<std::uint64_t>(1e9 * reader->number("gigabits_per_second", kLink));
}

std::size_t read_rack(JsonReader* reader, const NameIndex& racks) {
  const std::string name = reader->text("rack");
  const auto at = racks.find(name);
  if (at != racks.end()) return at->second;
  std::vector<std::string_view> names;
  for (const auto& [rack, index] : racks) names.push_back(rack);
  reader->refuse_value("rack",
                       fmt::format("there is no rack \"{}\"{}", name, maybe_name(name, names)));
  return 0;
}

std::vector<std::string> read_resources(JsonReader* reader) {
  std::vector<std::string> resources;
  for (const JsonNode& item : reader->list("resources", "names")) {
    const bool is_name = item.kind == JsonNode::Kind::kString && !item.text.empty();
    if (!is_name) reader->refuse_value("resources", "must be a list of texts");
    for (const std::string& other : resources) {
      if (other == item.text) {
        reader->refuse_value("resources", fmt::format("\"{}\" is there twice", item.text));
      }
    }
    resources.push_back(item.text);
  }
  if (resources.size() > gadget::kMostResources) {
    reader->refuse_value("resources", fmt::format("must be 1 to {} names, not {}",
                                                  gadget::kMostResources, resources.size()));
    resources.resize(gadget::kMostResources);
  }
  return resources;
}

gadget::Cluster read_cluster(JsonReader reader) {
  reader.check_names({"resources", "racks", "servers"}, {"name", "note"});
  gadget::Cluster cluster;
  cluster.name = reader.text("name");
  reader.text("note");
  cluster.resources = read_resources(&reader);
  NameIndex racks, servers;
  for (std::size_t i = 0; i < reader.list("racks", "racks").size(); ++i) {
    JsonReader item = reader.item("racks", i);
    item.check_names({"name", "gigabits_per_second"}, {});
    const std::string name = read_new_name(&item, &racks);
    cluster.racks.push_back({name, read_bits_per_second(&item)});
  }
  for (std::size_t i = 0; i < reader.list("servers", "servers").size(); ++i) {
    JsonReader item = reader.item("servers", i);
    item.check_names({"name", "rack", "gigabits_per_second", "has"}, {});
    const std::string name = read_new_name(&item, &servers);
    cluster.servers.push_back({name, read_rack(&item, racks),
                               read_amounts(item.object("has"), cluster, kAmount),
                               read_bits_per_second(&item)});
  }
  return cluster;
}

}  // namespace

std::string read_new_name(JsonReader* reader, NameIndex* index) {
  std::string name = reader->text("name");
  const bool is_new = index->emplace(name, index->size()).second;
  if (!is_new) reader->refuse_value("name", fmt::format("\"{}\" is there twice", name));
  // Names become lines of host lists and parts of paths.
  const auto bad =
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
  if (name.empty() || bad != std::string::npos || name[0] == '.' || name[0] == '-') {
    reader->refuse_value("name",
                         "must be letters, digits, \".\", \"_\" and \"-\", the first of "
                         "them a letter, a digit or \"_\"");
  }
  return name;
}

gadget::Amounts read_amounts(JsonReader reader, const gadget::Cluster& cluster,
                             const Range& range) {
  reader.check_names({}, {cluster.resources.begin(), cluster.resources.end()});
  gadget::Amounts amounts = {};
  for (std::size_t r = 0; r < cluster.resources.size(); ++r) {
    amounts[r] = static_cast<std::uint64_t>(reader.number(cluster.resources[r], range, 0));
  }
  return amounts;
}

Result<gadget::Cluster> parse_cluster(std::string_view text) {
  RINGPRESS_ASSIGN_OR_RETURN(const JsonNode root, parse_json(text));
  Status status;
  gadget::Cluster cluster = read_cluster(JsonReader(root, "", &status, "the cluster"));
  if (!status.is_ok()) return status;
  return cluster;
}

}  // namespace ringpress::nccl_plugin::command
