#include "nccl_plugin/plugin/function_lists.h"

#include <strings.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace ringpress::nccl_plugin::plugin {
namespace {

constexpr const char* kFunctionNames[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                          "AllReduce"};

bool same(std::string_view one, std::string_view other) {
  return one.size() == other.size() && strncasecmp(one.data(), other.data(), one.size()) == 0;
}

/// The parts of `text` between separators; empty ones are none.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool is_known(std::string_view name, std::span<const char* const> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const char* known) { return same(name, known); });
}

AllReduceChoice refusing(std::string_view part) {
  AllReduceChoice choice;
  choice.refused = part;
  return choice;
}

/// Of one list, without the functions that it is for.
AllReduceChoice parse_names(std::string_view list, std::span<const char* const> names) {
  AllReduceChoice choice;
  const bool excludes = list.starts_with('^');
  if (excludes) list.remove_prefix(1);
  const std::vector<std::string_view> given = split(list, ',');
  for (const std::string_view name : given) {
    if (!is_known(name, names)) return refusing(name);
  }
  choice.names_some = !given.empty();
  for (const char* name : names) {
    const bool listed = std::any_of(given.begin(), given.end(),
                                    [&](std::string_view one) { return same(one, name); });
    if (listed != excludes) choice.left.emplace_back(name);
  }
  return choice;
}

}  // namespace

bool AllReduceChoice::has(std::string_view name) const {
  return std::any_of(left.begin(), left.end(),
                     [&](const std::string& one) { return same(one, name); });
}

AllReduceChoice parse_function_list(const char* value, std::span<const char* const> names) {
  AllReduceChoice choice;
  choice.left.assign(names.begin(), names.end());
  if (value == nullptr) return choice;
  for (const std::string_view entry : split(value, ';')) {
    const std::vector<std::string_view> parts = split(entry, ':');
    const bool is_first = entry.data() == value;
    // Without a function an entry is for all, so only the first can be.
    if (parts.empty() || (parts.size() == 1 && !is_first)) return refusing(entry);
    const bool is_for_all = parts.size() == 1;
    if (!is_for_all && !is_known(parts[0], kFunctionNames)) return refusing(parts[0]);
    AllReduceChoice of_entry = parse_names(parts[is_for_all ? 0 : 1], names);
    if (!of_entry.refused.empty()) return of_entry;
    if (!is_for_all && !same(parts[0], "AllReduce")) continue;
    of_entry.is_told = true;
    of_entry.names_some = of_entry.names_some || choice.names_some;
    choice = std::move(of_entry);
  }
  return choice;
}

bool names_some_for_all_reduces(const char* value) {
  if (value == nullptr) return false;
  const std::vector<std::string_view> entries = split(value, ';');
  return std::any_of(entries.begin(), entries.end(), [](std::string_view entry) {
    const std::vector<std::string_view> parts = split(entry, ':');
    const bool is_for_them = parts.size() == 1 || (parts.size() > 1 && same(parts[0], "AllReduce"));
    return is_for_them && parts.back().find_first_not_of("^,") != std::string_view::npos;
  });
}

std::vector<std::string> algorithms_of_all_reduces(const AlgorithmVariables& variables) {
  const auto is_set = [](const char* value) { return value != nullptr && *value != '\0'; };
  const AllReduceChoice algorithms = parse_function_list(variables.algorithms, kAlgorithmNames);
  const AllReduceChoice protocols = parse_function_list(variables.protocols, kProtocolNames);
  const bool counts = algorithms.names_some || protocols.names_some ||
                      names_some_for_all_reduces(variables.symmetric_kernels);
  if (!counts) return {std::begin(kAlgorithmNames), std::end(kAlgorithmNames)};
  if (!protocols.has("Simple")) return {};
  const bool are_left_out = is_set(variables.algorithms) || is_set(variables.symmetric_kernels);
  if (!algorithms.is_told && are_left_out) return {};
  return algorithms.left;
}

}  // namespace ringpress::nccl_plugin::plugin
