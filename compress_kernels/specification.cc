#include "compress_kernels/specification.h"

#include <algorithm>
#include <charconv>

#include "ringpress/names.h"

namespace ringpress::compress_kernels {
namespace {

constexpr std::string_view kParameterNames[] = {"block", "grid", "round"};
constexpr std::size_t kLongestQuote = 80;  // Characters of the caller's text in a message.

std::string quoted(std::string_view text) {
  if (text.size() > kLongestQuote)
    return '"' + std::string(text.substr(0, kLongestQuote)) + "...\"";
  return '"' + std::string(text) + '"';
}

Status invalid(std::string message) {
  return Status(Code::kInvalidArgument, std::move(message));
}

Status bad_value(std::string_view parameter, std::string_view value, std::string_view allowed) {
  return invalid("codec parameter " + std::string(parameter) + "=" + quoted(value) + ": must be " +
                 std::string(allowed));
}

Status set_block(std::string_view value, UniformParameters& parameters) {
  std::size_t block = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), block);
  const bool is_number = error == std::errc() && end == value.data() + value.size();
  const bool is_power_of_two = block != 0 && (block & (block - 1)) == 0;
  if (!is_number || !is_power_of_two || block < kSmallestBlock || block > kLargestBlock) {
    return bad_value("block", value, "a power of two from 32 to 1024");
  }
  parameters.block = block;
  return Status::ok();
}

Status set_grid(std::string_view value, UniformParameters& parameters) {
  if (value != "uniform" && value != "minmax") return bad_value("grid", value, "uniform or minmax");
  parameters.grid = value == "uniform" ? Grid::kUniform : Grid::kMinMax;
  return Status::ok();
}

Status set_rounding(std::string_view value, UniformParameters& parameters) {
  if (value != "nearest" && value != "stochastic") {
    return bad_value("round", value, "nearest or stochastic");
  }
  parameters.rounding = value == "nearest" ? Rounding::kNearest : Rounding::kStochastic;
  return Status::ok();
}

Status set_parameter(std::string_view name, std::string_view value, UniformParameters& parameters) {
  if (name == "block") return set_block(value, parameters);
  if (name == "grid") return set_grid(value, parameters);
  if (name == "round") return set_rounding(value, parameters);
  const std::string_view nearest =
      nearest_name(name, {std::begin(kParameterNames), std::end(kParameterNames)});
  return invalid("unknown codec parameter " + quoted(name) + " (maybe " + std::string(nearest) +
                 "?); known: block, grid, round");
}

/// Parses "a=b,c=d" onto the defaults.
Status set_parameters(std::string_view list, const CodecEntry& codec,
                      UniformParameters& parameters) {
  if (codec.family != Family::kUniform) {
    return invalid("codec " + std::string(codec.name) + " takes no parameters, got " +
                   quoted(list));
  }
  std::vector<std::string_view> seen;
  while (true) {
    const std::string_view item = list.substr(0, list.find(','));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      return invalid("codec parameter " + quoted(item) + ": must have the form name=value");
    }
    const std::string_view name = item.substr(0, equals);
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
      return invalid("codec parameter " + quoted(name) + " is given twice");
    }
    seen.push_back(name);
    RINGPRESS_RETURN_IF_ERROR(set_parameter(name, item.substr(equals + 1), parameters));
    if (item.size() == list.size()) return Status::ok();
    list.remove_prefix(item.size() + 1);
  }
}

}  // namespace

const std::vector<CodecEntry>& codec_list() {
  static const std::vector<CodecEntry> kCodecs = {
#define RINGPRESS_CODEC(name, family, bits) CodecEntry{#name, Family::family, bits},
#include "compress_kernels/codecs.inc"
#undef RINGPRESS_CODEC
  };
  return kCodecs;
}

Result<Specification> parse_specification(const std::string& text) {
  const std::size_t end = text.find_first_of(":,= ");
  const std::string_view name = std::string_view(text).substr(0, end);
  std::vector<std::string_view> names;
  Specification specification;
  for (const CodecEntry& codec : codec_list()) {
    names.push_back(codec.name);
    if (codec.name == name) specification.codec = codec;
  }
  if (specification.codec.name.empty()) {
    return invalid("unknown codec " + quoted(name) + " (maybe " +
                   std::string(nearest_name(name, names)) + "?)");
  }
  if (end != std::string::npos && text[end] != ':') {
    return invalid("codec " + quoted(text) + ": parameters follow a colon, as in q4:block=64");
  }
  if (specification.codec.family == Family::kUniform) {
    specification.uniform.bits = specification.codec.bits;
  }
  if (end != std::string::npos) {
    RINGPRESS_RETURN_IF_ERROR(set_parameters(std::string_view(text).substr(end + 1),
                                             specification.codec, specification.uniform));
  }
  return specification;
}

std::string to_string(const Specification& specification) {
  std::string text(specification.codec.name);
  if (specification.codec.family != Family::kUniform) return text;
  const UniformParameters& parameters = specification.uniform;
  text += ":block=" + std::to_string(parameters.block);
  text += parameters.grid == Grid::kUniform ? ",grid=uniform" : ",grid=minmax";
  text += parameters.rounding == Rounding::kNearest ? ",round=nearest" : ",round=stochastic";
  return text;
}

}  // namespace ringpress::compress_kernels
