#include "nccl_plugin/command/plan/json_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ringpress/internal/names.h"

namespace ringpress::nccl_plugin::command {
namespace {

constexpr std::size_t kMostItems = 10000;

std::string join(const JsonReader::Names& names) {
  std::string all;
  for (const std::string_view name : names) {
    all.append(all.empty() ? "" : ", ").append("\"").append(name).append("\"");
  }
  return all;
}

}  // namespace

JsonReader::JsonReader(const JsonNode& node, std::string path, Status* status, std::string what)
    : node_(node), path_(std::move(path)), status_(status), what_(std::move(what)) {
  if (node.kind != JsonNode::Kind::kObject) refuse(node, path_, "an object");
}

void JsonReader::check_names(const Names& required, const Names& optional) {
  Names known = required;
  known.insert(known.end(), optional.begin(), optional.end());
  for (const JsonNode& member : node_.items) {
    const std::string& name = member.name;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    fail(member.line, fmt::format("{}: is not known{}; allowed are {}", at(name),
                                  maybe_name(name, known), join(known)));
  }
  for (const std::string_view name : required) {
    if (has(name)) continue;
    fail(node_.line, fmt::format("{}: is missing; {} are needed", at(name), join(required)));
  }
}

double JsonReader::number(std::string_view name, const Range& range, double otherwise) {
  const JsonNode* const member = node_.find(name);
  if (member == nullptr) return otherwise;
  const double value = member->number;
  const bool is_good = member->kind == JsonNode::Kind::kNumber && value >= range.least &&
                       value <= range.most && (!range.whole || value == std::floor(value));
  if (!is_good) refuse(*member, at(name), range.text);
  return is_good ? value : otherwise;
}

std::string JsonReader::text(std::string_view name) {
  const JsonNode* const member = node_.find(name);
  if (member == nullptr) return "";
  if (member->kind != JsonNode::Kind::kString) refuse(*member, at(name), "a text");
  return member->text;
}

JsonReader JsonReader::object(std::string_view name) {
  static const JsonNode kNone = {JsonNode::Kind::kObject, "", 0, 0, "", {}};
  const JsonNode* const member = node_.find(name);
  return JsonReader(member == nullptr ? kNone : *member, at(name), status_, what_);
}

const std::vector<JsonNode>& JsonReader::list(std::string_view name, std::string_view what) {
  static const std::vector<JsonNode> kNone;
  const JsonNode* const member = node_.find(name);
  if (member == nullptr) return kNone;
  const bool is_good = member->kind == JsonNode::Kind::kList && !member->items.empty() &&
                       member->items.size() <= kMostItems;
  if (!is_good) {
    refuse(*member, at(name), fmt::format("a list of 1 to {} {}", kMostItems, what));
  }
  return is_good ? member->items : kNone;
}

JsonReader JsonReader::item(std::string_view name, std::size_t index) {
  return JsonReader(node_.find(name)->items[index], fmt::format("{}[{}]", at(name), index), status_,
                    what_);
}

void JsonReader::refuse_value(std::string_view name, const std::string& what) {
  const JsonNode* const member = node_.find(name);
  fail(member == nullptr ? node_.line : member->line, fmt::format("{}: {}", at(name), what));
}

std::string JsonReader::at(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

void JsonReader::refuse(const JsonNode& node, const std::string& path, const std::string& allowed) {
  std::string found = kind_name(node.kind);
  if (node.kind == JsonNode::Kind::kNumber) found = fmt::format("{}", node.number);
  if (node.kind == JsonNode::Kind::kList) found = fmt::format("a list of {}", node.items.size());
  fail(node.line,
       fmt::format("{}: must be {}, not {}", path.empty() ? what_ : path, allowed, found));
}

void JsonReader::fail(std::size_t line, const std::string& what) {
  if (!status_->is_ok()) return;
  *status_ = Status(Code::kInvalidArgument, fmt::format("{}: {}", line, what));
}

}  // namespace ringpress::nccl_plugin::command
