#include "nccl_plugin/session/rules/rules.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <utility>

#include "ringpress/internal/algorithms.h"
#include "ringpress/internal/byte_size.h"
#include "ringpress/internal/names.h"

namespace ringpress::nccl_plugin {
namespace {

constexpr std::size_t kMostRules = 256;
constexpr const char* kOrAny = "or -1 for any";

enum class Column {
  kCollective,
  kMinBytes,
  kMaxBytes,
  kAlgorithm,
  kProtocol,
  kChannels,
  kNodes,
  kRanks,
  kPipeOps,
  kRegBuff,
  kCodec,
  kCommMatch,
  kDtype,
  kRingpressAlgorithm,  // From here on of `ringpress explain all --csv`, by name only.
  kPrediction,
  kOtherPrediction,
};
constexpr std::array<std::string_view, 16> kColumnNames = {
    "collective_type", "min_bytes",  "max_bytes", "algorithm",           "protocol",
    "channels",        "nNodes",     "nRanks",    "numPipeOps",          "regBuff",
    "codec",           "comm_match", "dtype",     "ringpress_algorithm", "predicted_us",
    "uncompressed_us"};
constexpr std::size_t kUsualColumns = 13;
constexpr std::size_t kFewestFields = 4;

template <typename Value>
struct Keyword {
  std::string_view name;
  Value value;
};
constexpr Keyword<CollectiveKind> kCollectives[] = {
    {"allreduce", CollectiveKind::kAllReduce},
    {"reducescatter", CollectiveKind::kReduceScatter},
    {"allgather", CollectiveKind::kAllGather},
    {"broadcast", CollectiveKind::kBroadcast},
    {"reduce", CollectiveKind::kReduce}};
/// Ours, and NCCL's others.
constexpr auto kAlgorithmKeywords = [] {
  constexpr std::string_view kOthers[] = {"tree", "collnet_direct", "collnet_chain",
                                          "nvls", "nvls_tree",      "pat"};
  std::array<Keyword<std::optional<Algorithm>>, std::size(kAlgorithms) + std::size(kOthers)>
      keywords{};
  std::size_t at = 0;
  for (const AlgorithmTraits& traits : kAlgorithms) {
    keywords[at++] = {traits.name, traits.algorithm};
  }
  for (const std::string_view name : kOthers) keywords[at++] = {name, std::nullopt};
  return keywords;
}();
constexpr Keyword<bool> kProtocols[] = {{"ll", true}, {"ll128", true}, {"simple", true}};
constexpr Keyword<DType> kDtypes[] = {
    {"float32", DType::kFloat32}, {"float16", DType::kFloat16}, {"bfloat16", DType::kBfloat16}};

/// Where in the text, for messages.
struct TextPosition {
  std::size_t line = 0;
  std::string_view field;
};

Status refuse(const TextPosition& position, std::string_view given, const std::string& allowed) {
  return {Code::kInvalidArgument, "line " + std::to_string(position.line) + ", " +
                                      std::string(position.field) + ": \"" + std::string(given) +
                                      "\"; allowed: " + allowed};
}

bool is_any(std::string_view text) {
  return text.empty() || text == "-1" || text == "*";
}

template <typename Value>
Result<Value> parse_keyword(const TextPosition& position, std::string_view text,
                            std::span<const Keyword<Value>> keywords) {
  std::string allowed;
  for (const Keyword<Value>& keyword : keywords) {
    if (keyword.name == text) return keyword.value;
    allowed.append(keyword.name).append(", ");
  }
  return refuse(position, text, allowed + kOrAny);
}

Status set_algorithm(const TextPosition& position, std::string_view text, Rule* rule) {
  if (is_any(text)) return Status::ok();
  RINGPRESS_ASSIGN_OR_RETURN(
      rule->algorithm,
      parse_keyword(position, text,
                    std::span<const Keyword<std::optional<Algorithm>>>(kAlgorithmKeywords)));
  return Status::ok();
}

Status set_count(const TextPosition& position, std::string_view text, int* count) {
  if (is_any(text)) return Status::ok();
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *count);
  if (parsed.ec == std::errc() && parsed.ptr == end && *count >= 0) return Status::ok();
  return refuse(position, text, std::string("a whole number, ") + kOrAny);
}

Status set_bytes(const TextPosition& position, std::string_view text, std::size_t* bytes) {
  if (is_any(text)) return Status::ok();
  const std::optional<std::size_t> parsed = parse_byte_size(text);
  if (!parsed) return refuse(position, text, std::string(expected_byte_size(text)) + ", " + kOrAny);
  *bytes = *parsed;
  return Status::ok();
}

/// What this library cannot tell of a call.
Status check_unknowable(const TextPosition& position, std::string_view text) {
  if (is_any(text)) return Status::ok();
  return refuse(position, text, "-1 alone, as NCCL alone knows it");
}

Status set_field(Column column, const TextPosition& position, std::string_view text, Rule* rule) {
  int ignored = 0;
  switch (column) {
    case Column::kCollective: {
      if (is_any(text)) return Status::ok();
      RINGPRESS_ASSIGN_OR_RETURN(
          rule->kind,
          parse_keyword(position, text, std::span<const Keyword<CollectiveKind>>(kCollectives)));
      return Status::ok();
    }
    case Column::kMinBytes:
      return set_bytes(position, text, &rule->min_bytes);
    case Column::kMaxBytes:
      return set_bytes(position, text, &rule->max_bytes);
    case Column::kAlgorithm:
      return rule->algorithm ? Status::ok() : set_algorithm(position, text, rule);
    case Column::kRingpressAlgorithm:
      return set_algorithm(position, text, rule);
    case Column::kProtocol:
      if (is_any(text)) return Status::ok();
      return parse_keyword(position, text, std::span<const Keyword<bool>>(kProtocols)).status();
    case Column::kChannels:
      return set_count(position, text, &ignored);
    case Column::kNodes:
      return set_count(position, text, &rule->nodes);
    case Column::kRanks:
      return set_count(position, text, &rule->ranks);
    case Column::kPipeOps:
    case Column::kRegBuff:
      return check_unknowable(position, text);
    case Column::kCodec:
      if (!is_any(text)) rule->codec = text;
      return Status::ok();
    case Column::kCommMatch:
      if (!is_any(text)) rule->comm_match = text;
      return Status::ok();
    case Column::kDtype: {
      if (is_any(text)) return Status::ok();
      RINGPRESS_ASSIGN_OR_RETURN(
          rule->dtype, parse_keyword(position, text, std::span<const Keyword<DType>>(kDtypes)));
      return Status::ok();
    }
    case Column::kPrediction:
    case Column::kOtherPrediction:
      return Status::ok();
  }
  return Status::ok();
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

/// The fields of a line; quotes keep commas and # in one.
Result<std::vector<std::string_view>> split_line(std::size_t number, std::string_view line) {
  std::vector<std::string_view> fields;
  std::size_t begin = 0;
  bool is_quoted = false;
  std::size_t end = 0;
  for (; end < line.size() && (is_quoted || line[end] != '#'); ++end) {
    if (line[end] == '"') is_quoted = !is_quoted;
    if (line[end] != ',' || is_quoted) continue;
    fields.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  if (is_quoted) return refuse({number, "quotes"}, line.substr(begin), "pairs of them");
  fields.push_back(line.substr(begin, end - begin));
  for (std::string_view& field : fields) {
    field = trimmed(field);
    const bool has_quotes = field.size() >= 2 && field.front() == '"' && field.back() == '"';
    if (has_quotes) field = field.substr(1, field.size() - 2);
    if (field.find('"') == std::string_view::npos) continue;
    return refuse({number, "quotes"}, field, "at both ends of a field");
  }
  return fields;
}

std::vector<Column> usual_columns() {
  std::vector<Column> columns;
  for (std::size_t i = 0; i < kUsualColumns; ++i) columns.push_back(static_cast<Column>(i));
  return columns;
}

Result<std::vector<Column>> read_header(std::size_t line,
                                        const std::vector<std::string_view>& fields) {
  std::vector<Column> columns;
  for (const std::string_view field : fields) {
    const auto found = std::find(kColumnNames.begin(), kColumnNames.end(), field);
    const auto column = static_cast<Column>(found - kColumnNames.begin());
    const bool is_new = std::find(columns.begin(), columns.end(), column) == columns.end();
    if (found == kColumnNames.end() || !is_new) {
      std::string allowed = "each once:";
      for (const std::string_view name : kColumnNames) allowed.append(" ").append(name);
      const std::vector<std::string_view> names(kColumnNames.begin(), kColumnNames.end());
      return refuse({line, "header"}, field, allowed + maybe_name(field, names));
    }
    columns.push_back(column);
  }
  return columns;
}

Result<Rule> read_rule(std::size_t line, const std::vector<Column>& columns,
                       const std::vector<std::string_view>& fields) {
  if (fields.size() < kFewestFields || fields.size() > columns.size()) {
    return refuse({line, "fields"}, std::to_string(fields.size()),
                  std::to_string(kFewestFields) + " to " + std::to_string(columns.size()));
  }
  Rule rule;
  rule.line = line;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const TextPosition position{line, kColumnNames[static_cast<std::size_t>(columns[i])]};
    RINGPRESS_RETURN_IF_ERROR(set_field(columns[i], position, fields[i], &rule));
  }
  if (rule.min_bytes > rule.max_bytes) {
    return refuse({line, "max_bytes"}, std::to_string(rule.max_bytes), "min_bytes or more");
  }
  return rule;
}

}  // namespace

Result<std::vector<Rule>> parse_rules(std::string_view text) {
  // Some editors and spreadsheets begin UTF-8 with it.
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<Rule> rules;
  std::vector<Column> columns = usual_columns();
  bool is_first = true;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    RINGPRESS_ASSIGN_OR_RETURN(const std::vector<std::string_view> fields,
                               split_line(line, text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (std::exchange(is_first, false) && fields[0] == kColumnNames[0]) {
      RINGPRESS_ASSIGN_OR_RETURN(columns, read_header(line, fields));
      continue;
    }
    if (rules.size() == kMostRules) {
      return refuse({line, "rules"}, std::to_string(kMostRules + 1), std::to_string(kMostRules));
    }
    RINGPRESS_ASSIGN_OR_RETURN(Rule rule, read_rule(line, columns, fields));
    rules.push_back(std::move(rule));
  }
  return rules;
}

}  // namespace ringpress::nccl_plugin
