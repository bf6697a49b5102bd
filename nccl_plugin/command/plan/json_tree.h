// JSON with the lines on which things stand, so that a mistake in a file can be pointed at.
#ifndef NCCL_PLUGIN_COMMAND_PLAN_JSON_TREE_H_
#define NCCL_PLUGIN_COMMAND_PLAN_JSON_TREE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::command {

struct JsonNode {
  enum class Kind { kNull, kBoolean, kNumber, kString, kList, kObject };

  Kind kind = Kind::kNull;
  std::string name;             // Of a member of an object.
  std::size_t line = 0;         // The first is 1; of a member: of its name.
  double number = 0;            // Of a boolean 0 or 1.
  std::string text;             // Of a string.
  std::vector<JsonNode> items;  // Of a list, or the members of an object.

  /// Null if there is none.
  const JsonNode* find(std::string_view member) const;
};

/// What a message calls it, as "a number".
const char* kind_name(JsonNode::Kind kind);

/// An error begins with the line and a colon: of text that is not JSON, that names a member twice
/// or is nested more than 16 deep.
Result<JsonNode> parse_json(std::string_view text);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_PLAN_JSON_TREE_H_
