#include "perf/ringpress/plan/job_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "perf/ringpress/plan/json_tree.h"
#include "ringpress/names.h"

namespace ringpress::perf {
namespace {

using Names = std::vector<std::string_view>;

constexpr double kMostBytes = 9007199254740992.0;  // 2^53: so far numbers of JSON are exact.
constexpr std::size_t kMostTensors = 10000;
constexpr double kMostRanks = 1 << 20;

/// The allowed numbers, and how a message names them.
struct Range {
  double least;
  double most;
  bool whole;
  const char* text;
};
constexpr Range kCount = {1, kMostRanks, true, "a whole number from 1 to 2^20"};
constexpr Range kBytes = {1, kMostBytes, true, "a whole number from 1 to 2^53"};
constexpr Range kTime = {0, 1e12, false, "a number from 0 to 1e12"};
constexpr Range kRate = {1e-9, 1e9, false, "a number from 1e-9 to 1e9"};
constexpr Range kRatio = {1e-9, 1, false, "a number from 1e-9 to 1"};

/// An object of the file that is read by its members' names. The first mistake is kept.
class Reader {
 public:
  Reader(const JsonNode& node, std::string path, Status* status)
      : node_(node), path_(std::move(path)), status_(status) {
    if (node.kind != JsonNode::Kind::kObject) refuse(node, path_, "an object");
  }

  /// Members that are none of `required` and `optional`, or are missing.
  void check_names(const Names& required, const Names& optional) {
    Names known = required;
    known.insert(known.end(), optional.begin(), optional.end());
    for (const JsonNode& member : node_.items) {
      const std::string& name = member.name;
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      fail(member.line, fmt::format("{}: is not known; maybe \"{}\"? allowed are {}", at(name),
                                    nearest_name(name, known), join(known)));
    }
    for (const std::string_view name : required) {
      if (node_.find(name) != nullptr) continue;
      fail(node_.line, fmt::format("{}: is missing; {} are needed", at(name), join(required)));
    }
  }

  /// `otherwise` if there is no such member.
  double number(std::string_view name, const Range& range, double otherwise = 1) {
    const JsonNode* const member = node_.find(name);
    if (member == nullptr) return otherwise;
    const double value = member->number;
    const bool is_good = member->kind == JsonNode::Kind::kNumber && value >= range.least &&
                         value <= range.most && (!range.whole || value == std::floor(value));
    if (!is_good) refuse(*member, at(name), range.text);
    return is_good ? value : otherwise;
  }

  std::string text(std::string_view name) {
    const JsonNode* const member = node_.find(name);
    if (member == nullptr) return "";
    if (member->kind != JsonNode::Kind::kString) refuse(*member, at(name), "a text");
    return member->text;
  }

  /// A member that is an object; an empty one if it is missing.
  Reader object(std::string_view name) {
    static const JsonNode kNone = {JsonNode::Kind::kObject, "", 0, 0, "", {}};
    const JsonNode* const member = node_.find(name);
    return Reader(member == nullptr ? kNone : *member, at(name), status_);
  }

  bool has(std::string_view name) const { return node_.find(name) != nullptr; }

  const std::vector<JsonNode>& list(std::string_view name) {
    static const std::vector<JsonNode> kNone;
    const JsonNode* const member = node_.find(name);
    if (member == nullptr) return kNone;
    const bool is_good = member->kind == JsonNode::Kind::kList && !member->items.empty() &&
                         member->items.size() <= kMostTensors;
    if (!is_good) refuse(*member, at(name), "a list of 1 to 10000 tensors");
    return is_good ? member->items : kNone;
  }

  Reader item(std::string_view name, std::size_t index) {
    return Reader(list(name)[index], fmt::format("{}[{}]", at(name), index), status_);
  }

 private:
  std::string at(std::string_view name) const {
    return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
  }

  static std::string join(const Names& names) {
    std::string all;
    for (const std::string_view name : names) {
      all.append(all.empty() ? "" : ", ").append("\"").append(name).append("\"");
    }
    return all;
  }

  void refuse(const JsonNode& node, const std::string& path, const char* allowed) {
    std::string found = kind_name(node.kind);
    if (node.kind == JsonNode::Kind::kNumber) found = fmt::format("{}", node.number);
    if (node.kind == JsonNode::Kind::kList) found = fmt::format("a list of {}", node.items.size());
    fail(node.line,
         fmt::format("{}: must be {}, not {}", path.empty() ? "the job" : path, allowed, found));
  }

  void fail(std::size_t line, const std::string& what) {
    if (!status_->is_ok()) return;
    *status_ = Status(Code::kInvalidArgument, fmt::format("{}: {}", line, what));
  }

  const JsonNode& node_;
  std::string path_;
  Status* status_;
};

constexpr double kMicro = 1e-6;

double seconds_per_byte(Reader* reader) {
  return 1e-9 / reader->number("gigabytes_per_second", kRate);
}

espresso::Link read_link(Reader reader) {
  reader.check_names({"latency_us", "gigabytes_per_second"}, {});
  return {kMicro * reader.number("latency_us", kTime), 1 / seconds_per_byte(&reader)};
}

espresso::CodecCost read_cost(Reader reader) {
  reader.check_names({"start_us", "gigabytes_per_second"}, {});
  return {kMicro * reader.number("start_us", kTime), seconds_per_byte(&reader)};
}

espresso::DeviceCosts read_costs(Reader reader) {
  reader.check_names({"compress", "decompress"}, {});
  return {read_cost(reader.object("compress")), read_cost(reader.object("decompress"))};
}

espresso::Compressor read_compressor(Reader reader) {
  reader.check_names({"ratio", "gpu"}, {"cpu", "name", "note"});
  espresso::Compressor compressor;
  compressor.name = reader.text("name");
  compressor.ratio = reader.number("ratio", kRatio);
  compressor.gpu = read_costs(reader.object("gpu"));
  if (reader.has("cpu")) compressor.cpu = read_costs(reader.object("cpu"));
  reader.text("note");
  return compressor;
}

espresso::Tensor read_tensor(Reader reader) {
  reader.check_names({"bytes", "backward_us"}, {"name"});
  return {reader.text("name"), static_cast<std::size_t>(reader.number("bytes", kBytes)),
          kMicro * reader.number("backward_us", kTime)};
}

espresso::Job read_job(Reader reader) {
  reader.check_names({"machines", "gpus_per_machine", "inside", "between", "tensors"},
                     {"name", "note", "forward_ms", "compressor"});
  espresso::Job job;
  job.name = reader.text("name");
  reader.text("note");
  job.cluster.machines = static_cast<std::size_t>(reader.number("machines", kCount));
  job.cluster.gpus_per_machine =
      static_cast<std::size_t>(reader.number("gpus_per_machine", kCount));
  job.cluster.inside = read_link(reader.object("inside"));
  job.cluster.between = read_link(reader.object("between"));
  if (reader.has("compressor")) {
    job.compressor = read_compressor(reader.object("compressor"));
    if (job.compressor.name.empty()) job.compressor.name = "compressor";
  }
  job.forward_seconds = 1000 * kMicro * reader.number("forward_ms", kTime, 0);
  for (std::size_t i = 0; i < reader.list("tensors").size(); ++i) {
    job.tensors.push_back(read_tensor(reader.item("tensors", i)));
    if (job.tensors.back().name.empty()) job.tensors.back().name = fmt::format("tensor {}", i);
  }
  return job;
}

}  // namespace

Result<espresso::Job> parse_job(std::string_view text) {
  RINGPRESS_ASSIGN_OR_RETURN(const JsonNode root, parse_json(text));
  Status status;
  espresso::Job job = read_job(Reader(root, "", &status));
  if (!status.is_ok()) return status;
  RINGPRESS_RETURN_IF_ERROR(check(job));
  return job;
}

}  // namespace ringpress::perf
