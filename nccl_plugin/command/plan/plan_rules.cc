#include "nccl_plugin/command/plan/plan_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/rules/rule_codecs.h"
#include "nccl_plugin/session/rules/rules.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::command {
namespace {

/// The algorithm of calls of one size; what is not compressed has none.
struct WayOfSize {
  bool is_compressed = false;
  std::string algorithm = "-1";  // Any.

  bool operator==(const WayOfSize&) const = default;
};

/// How many tensors of one size go each way.
struct VotesOfSize {
  std::size_t compressed = 0;
  std::size_t exact = 0;
  std::map<std::string, std::size_t> algorithms;

  /// Of as many for either, the plan saw a gain in compressing.
  WayOfSize way() const {
    if (compressed < exact) return {};
    const auto most =
        std::max_element(algorithms.begin(), algorithms.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return {true, most->first};
  }
  std::size_t otherwise() const { return std::min(compressed, exact); }
};

std::map<std::size_t, VotesOfSize> count_votes(const std::vector<PlannedTensor>& tensors) {
  std::map<std::size_t, VotesOfSize> sizes;
  for (const PlannedTensor& tensor : tensors) {
    VotesOfSize& votes = sizes[tensor.bytes];
    ++(tensor.is_compressed ? votes.compressed : votes.exact);
    const bool is_named = tensor.way == "sra" || tensor.way == "hier";
    if (tensor.is_compressed) ++votes.algorithms[is_named ? tensor.way : "-1"];
  }
  return sizes;
}

/// A field of CSV.
std::string quoted(const std::string& text) {
  return text.find(',') == std::string::npos ? text : '"' + text + '"';
}

std::string rule_line(std::size_t least, const std::string& most, const WayOfSize& way,
                      const std::string& codec) {
  return fmt::format("allreduce,{},{},{},-1,-1,-1,-1,-1,-1,{}\n", least, most, way.algorithm,
                     way.is_compressed ? quoted(codec) : "none");
}

Status check_text(const std::string& text) {
  Settings settings = parse_settings({}, nullptr);
  settings.rules = "(this plan)";  // For messages.
  RINGPRESS_ASSIGN_OR_RETURN(settings.rule_list, nccl_plugin::parse_rules(text));
  return nccl_plugin::check_rules(settings);
}

}  // namespace

Result<PlanRules> make_plan_rules(const std::vector<PlannedTensor>& tensors,
                                  const std::string& codec, const std::string& job_name) {
  const auto normal = compress_kernels::normalize_specification(codec);
  if (!normal.is_ok()) return normal.status();
  PlanRules rules;
  std::string name = job_name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  rules.text = fmt::format(
      "# The plan of {}: sizes are those of whole all-reduces. A program that puts tensors into\n"
      "# buckets makes all-reduces of other sizes, and needs a plan of its buckets.\n"
      "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,"
      "regBuff,codec\n",
      name);
  const std::map<std::size_t, VotesOfSize> sizes = count_votes(tensors);
  std::size_t least = 0;
  for (auto size = sizes.begin(); size != sizes.end(); ++size) {
    rules.otherwise += size->second.otherwise();
    const auto next = std::next(size);
    const bool is_last = next == sizes.end();
    if (!is_last && next->second.way() == size->second.way()) continue;
    const std::string most = is_last ? "-1" : std::to_string(next->first - 1);
    rules.text += rule_line(least, most, size->second.way(), codec);
    if (!is_last) least = next->first;
  }
  RINGPRESS_RETURN_IF_ERROR(check_text(rules.text));
  return rules;
}

}  // namespace ringpress::nccl_plugin::command
