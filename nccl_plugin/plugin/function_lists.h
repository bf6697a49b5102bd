// What NCCL_ALGO and NCCL_PROTO leave to all-reduces, as NCCL 2.24 and later read them:
// "Ring,Tree" (only these), "^Ring" (all but that), and for single functions, of which a later
// entry replaces an earlier one, "Ring;allreduce:Tree,CollNetChain". Earlier versions take the
// first form and the second, and pass over names that they do not know. From 2.31 on an entry that
// names nothing ("," or "^") restricts nothing, and NCCL_SYM_KERNEL is such a list, too.
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
  bool is_told = false;           // An entry is for all-reduces, or for all functions.
  bool names_some = false;        // That entry names something.

  bool has(std::string_view name) const;
};

/// Null: the variable is not set.
AllReduceChoice parse_function_list(const char* value, std::span<const char* const> names);
/// The same of a list of other names, whatever these are: AllReduceChoice::names_some.
bool names_some_for_all_reduces(const char* value);

/// What is set of NCCL's variables for algorithms. Null: it is not.
struct AlgorithmVariables {
  const char* algorithms = nullptr;         // NCCL_ALGO.
  const char* protocols = nullptr;          // NCCL_PROTO.
  const char* symmetric_kernels = nullptr;  // NCCL_SYM_KERNEL.
};
/// What NCCL 2.31 and later leave to all-reduces with the protocol Simple; no value is refused.
/// Where one of the variables tells of all-reduces, all three count for them: an NCCL_ALGO that
/// tells of other functions alone, and any NCCL_SYM_KERNEL, then leave them no algorithm.
std::vector<std::string> algorithms_of_all_reduces(const AlgorithmVariables& variables);

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_FUNCTION_LISTS_H_
