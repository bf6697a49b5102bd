// Pieces of JSON, for files that are written a line at a time.
#ifndef NCCL_PLUGIN_SESSION_LIVE_JSON_TEXT_H_
#define NCCL_PLUGIN_SESSION_LIVE_JSON_TEXT_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ringpress/internal/communicator.h"

namespace ringpress::nccl_plugin {

/// Bytes that are no UTF-8 become question marks.
std::string utf8(std::string_view text);
/// The same as JSON.
std::string json_quoted(std::string_view text);
/// At most nine digits, which JSON can hold whatever the value: no number becomes 0.
std::string json_number(double value);

/// "name": value and a comma.
std::string json_field(std::string_view name, std::uint64_t value);
std::string json_field(std::string_view name, double value);

std::string json_of(const std::map<std::string, std::uint64_t>& counts);
std::string json_of(const std::vector<MeasuredError>& errors);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LIVE_JSON_TEXT_H_
