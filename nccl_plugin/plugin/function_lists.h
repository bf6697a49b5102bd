// What NCCL_ALGO and NCCL_PROTO leave to all-reduces, as NCCL 2.24 and later read them:
// "Ring,Tree" (only these), "^Ring" (all but that), and for single functions, of which a later
// entry replaces an earlier one, "Ring;allreduce:Tree,CollNetChain". Earlier versions take the
// first form and the second, and pass over names that they do not know.
#ifndef NCCL_PLUGIN_PLUGIN_FUNCTION_LISTS_H_
#define NCCL_PLUGIN_PLUGIN_FUNCTION_LISTS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ringpress::nccl_plugin::plugin {

/// Of NCCL_ALGO. Upper and lower case are the same to NCCL.
constexpr const char* kAlgorithmNames[] = {
    "Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"};
/// Of NCCL_PROTO.
constexpr const char* kProtocolNames[] = {"LL", "LL128", "Simple"};

struct AllReduceChoice {
  std::vector<std::string> left;  // Of the names that were given, in their order.
  std::string refused;            // The part for which NCCL refuses the value; else empty.

  bool has(std::string_view name) const;
};

/// Null: the variable is not set.
AllReduceChoice parse_function_list(const char* value, std::span<const char* const> names);

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_FUNCTION_LISTS_H_
