// Reads objects of a JSON file by their members' names. The first mistake is kept: it begins with
// the line, then names the key and what is allowed there, as "7: tensors[3].bytes: must be a whole
// number from 1 to 2^53, not -4".
#ifndef NCCL_PLUGIN_COMMAND_PLAN_JSON_READER_H_
#define NCCL_PLUGIN_COMMAND_PLAN_JSON_READER_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "nccl_plugin/command/plan/json_tree.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::command {

/// The allowed numbers, and how a message names them.
struct Range {
  double least;
  double most;
  bool whole;
  const char* text;
};

class JsonReader {
 public:
  using Names = std::vector<std::string_view>;

  /// `path`: of the object in the file; empty for all of it, which messages call `what`. `node` and
  /// `status` must outlive the reader.
  JsonReader(const JsonNode& node, std::string path, Status* status, std::string what = "the file");

  /// Members that are none of `required` and `optional`, or are missing.
  void check_names(const Names& required, const Names& optional);

  /// `otherwise` if there is no such member.
  double number(std::string_view name, const Range& range, double otherwise = 1);

  /// Empty if there is no such member.
  std::string text(std::string_view name);

  /// A member that is an object; an empty one if it is missing.
  JsonReader object(std::string_view name);

  bool has(std::string_view name) const { return node_.find(name) != nullptr; }

  /// 1 to 10000 items; `what` they are is for the message. None if there is no such member.
  const std::vector<JsonNode>& list(std::string_view name, std::string_view what);

  /// An item of a list() of objects.
  JsonReader item(std::string_view name, std::size_t index);

  /// A mistake in a member that has been read: what is wrong with it.
  void refuse_value(std::string_view name, const std::string& what);

 private:
  std::string at(std::string_view name) const;
  void refuse(const JsonNode& node, const std::string& path, const std::string& allowed);
  void fail(std::size_t line, const std::string& what);

  const JsonNode& node_;
  std::string path_;
  Status* status_;
  std::string what_;
};

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_PLAN_JSON_READER_H_
