#include "nccl_plugin/command/plan/json_tree.h"

#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>

namespace ringpress::nccl_plugin::command {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kDeepest = 16;
constexpr std::size_t kMostMembers = 100;

/// Where the parser is.
struct TextPosition {
  std::size_t line = 1;
  bool after_newline = false;

  /// Numbers end where the next character, perhaps a line's end, was read already.
  std::size_t line_of_number() const { return line - (after_newline ? 1 : 0); }
};

/// Goes through text and counts its lines.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, TextPosition* position) : at_(at), position_(position) {}

  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    position_->after_newline = *at_ == '\n';
    if (position_->after_newline) ++position_->line;
    ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  TextPosition* position_;
};

/// Builds the tree from the parser's events. A function that returns false ends the parsing.
class Builder {
 public:
  explicit Builder(const TextPosition* position) : position_(position) {}

  Result<JsonNode> take() && {
    if (!error_.empty()) return Status(Code::kInvalidArgument, error_);
    return std::move(root_);
  }

  bool null() {
    add(JsonNode::Kind::kNull, position_->line);
    return true;
  }
  bool boolean(bool value) { return add_number(JsonNode::Kind::kBoolean, value ? 1 : 0); }
  bool number_integer(std::int64_t value) {
    return add_number(JsonNode::Kind::kNumber, static_cast<double>(value));
  }
  bool number_unsigned(std::uint64_t value) {
    return add_number(JsonNode::Kind::kNumber, static_cast<double>(value));
  }
  bool number_float(double value, const std::string&) {
    return add_number(JsonNode::Kind::kNumber, value);
  }
  bool string(std::string& value) {
    add(JsonNode::Kind::kString, position_->line).text = std::move(value);
    return true;
  }
  bool binary(Json::binary_t&) { return false; }  // Not in JSON text.
  bool start_object(std::size_t) { return open(JsonNode::Kind::kObject); }
  bool end_object() { return close(); }
  bool start_array(std::size_t) { return open(JsonNode::Kind::kList); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    if (open_.back()->find(name) != nullptr) return fail("\"" + name + "\" is there twice");
    if (open_.back()->items.size() == kMostMembers) return fail("an object has too many members");
    JsonNode& member = open_.back()->items.emplace_back();
    member.name = std::move(name);
    member.line = position_->line;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) {
    std::string text = error.what();
    if (const auto end = text.find("] "); end != std::string::npos) text.erase(0, end + 2);
    return fail("not JSON: " + text);
  }

 private:
  bool fail(const std::string& what) {
    error_ = std::to_string(position_->line) + ": " + what;
    return false;
  }

  bool add_number(JsonNode::Kind kind, double value) {
    const bool is_number = kind == JsonNode::Kind::kNumber;
    add(kind, is_number ? position_->line_of_number() : position_->line).number = value;
    return true;
  }

  bool open(JsonNode::Kind kind) {
    if (open_.size() == kDeepest) return fail("nested too deep");
    open_.push_back(&add(kind, position_->line));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  /// The position for a value: the root, a list's new item, or the member whose name came last.
  /// What is open stays where it is: only the last of its items grows.
  JsonNode& add(JsonNode::Kind kind, std::size_t line) {
    JsonNode* node = &root_;
    if (!open_.empty()) {
      JsonNode& parent = *open_.back();
      const bool is_list = parent.kind == JsonNode::Kind::kList;
      node = is_list ? &parent.items.emplace_back() : &parent.items.back();
    }
    node->kind = kind;
    if (node->line == 0) node->line = line;
    return *node;
  }

  const TextPosition* position_;
  JsonNode root_;
  std::vector<JsonNode*> open_;
  std::string error_;
};

}  // namespace

const JsonNode* JsonNode::find(std::string_view member) const {
  for (const JsonNode& item : items) {
    if (item.name == member) return &item;
  }
  return nullptr;
}

const char* kind_name(JsonNode::Kind kind) {
  switch (kind) {
    case JsonNode::Kind::kNull:
      return "null";
    case JsonNode::Kind::kBoolean:
      return "true or false";
    case JsonNode::Kind::kNumber:
      return "a number";
    case JsonNode::Kind::kString:
      return "a text";
    case JsonNode::Kind::kList:
      return "a list";
    case JsonNode::Kind::kObject:
      return "an object";
  }
  return "unknown";
}

Result<JsonNode> parse_json(std::string_view text) {
  TextPosition position;
  Builder builder(&position);
  Json::sax_parse(CountingIterator(text.data(), &position),
                  CountingIterator(text.data() + text.size(), &position), &builder);
  return std::move(builder).take();
}

}  // namespace ringpress::nccl_plugin::command
