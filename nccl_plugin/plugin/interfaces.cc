#include "nccl_plugin/plugin/interfaces.h"

#include <utility>

#include "ring/factory.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

std::vector<std::string> preferred(std::vector<std::string> names) {
  std::vector<std::string> found = ring::select_interfaces(names, "^lo,docker");
  if (!found.empty()) return found;
  if (names.size() > 1) names.resize(1);
  return names;
}

}  // namespace

Result<std::vector<std::string>> choose_interfaces(const AddressChoice& choice) {
  RINGPRESS_RETURN_IF_ERROR(ring::check_address(choice));
  RINGPRESS_ASSIGN_OR_RETURN(std::vector<std::string> names, ring::interface_names(choice.family));
  if (choice.interfaces.empty()) return preferred(std::move(names));
  return ring::select_interfaces(names, choice.interfaces);
}

}  // namespace ringpress::nccl_plugin::plugin
