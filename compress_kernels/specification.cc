#include "compress_kernels/specification.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "ringpress/internal/names.h"

namespace ringpress::compress_kernels {

// Every folder of the list has a function family().
#define RINGPRESS_CODEC(name, folder, bits) \
  namespace folder {                        \
  const CodecFamily& family();              \
  }
#include "compress_kernels/codecs.inc"
#undef RINGPRESS_CODEC

namespace {

constexpr std::size_t kLongestQuote = 80;  // Characters of the caller's text in a message.

std::string quoted(std::string_view text) {
  if (text.size() > kLongestQuote) {
    return '"' + std::string(text.substr(0, kLongestQuote)) + "...\"";
  }
  return '"' + std::string(text) + '"';
}

Status invalid(std::string message) {
  return Status(Code::kInvalidArgument, std::move(message));
}

std::optional<double> number_of(std::string_view text) {
  const std::string terminated(text);
  char* end = nullptr;
  const double number = std::strtod(terminated.c_str(), &end);
  if (terminated.empty() || *end != '\0' || std::isnan(number)) return std::nullopt;
  return number;
}

/// Those that a rule's text lists.
std::vector<std::string> words_of(const ParameterRule& rule) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : std::string(rule.allowed) + ' ') {
    if (c != ' ' && c != ',') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, ""));
    }
  }
  std::erase(words, "or");
  return words;
}

/// Values that a rule accepts: those that its text names, and powers of two.
std::vector<std::string> some_values(const ParameterRule& rule) {
  std::vector<std::string> candidates = words_of(rule);
  for (int power = 1; power <= 65536; power *= 2) candidates.push_back(std::to_string(power));
  std::erase_if(candidates, [&](const std::string& value) { return !accepts(rule, value); });
  return candidates;
}

/// " (maybe 32?)": of the values that a rule names the one nearest to `value`.
std::string suggestion(const ParameterRule& rule, std::string_view value) {
  const std::vector<std::string> values = some_values(rule);
  if (values.empty()) return "";
  const std::optional<double> wanted = number_of(value);
  if (!wanted) {
    const std::vector<std::string_view> names(values.begin(), values.end());
    return maybe_name(value, names);
  }
  // Beside a huge number all candidates would be equally far.
  constexpr double kFarAway = 1e9;
  const double near = std::clamp(*wanted, -kFarAway, kFarAway);
  const auto distance = [&](const std::string& candidate) {
    const std::optional<double> number = number_of(candidate);
    return number ? std::abs(*number - near) : std::numeric_limits<double>::infinity();
  };
  const auto nearest = std::min_element(
      values.begin(), values.end(),
      [&](const std::string& a, const std::string& b) { return distance(a) < distance(b); });
  return " (maybe " + *nearest + "?)";
}

Status unknown_parameter(std::string_view name, const std::vector<ParameterRule>& rules) {
  std::vector<std::string_view> names;
  std::string list;
  for (const ParameterRule& rule : rules) {
    names.push_back(rule.name);
    list += (list.empty() ? "" : ", ") + std::string(rule.name);
  }
  return invalid("unknown codec parameter " + quoted(name) + maybe_name(name, names) +
                 "; known: " + list);
}

Status set_parameter(std::string_view name, std::string_view value, Specification* specification) {
  const std::vector<ParameterRule>& rules = specification->codec.family->parameters;
  for (const ParameterRule& rule : rules) {
    if (rule.name != name) continue;
    if (!accepts(rule, value)) {
      return invalid("codec parameter " + std::string(name) + "=" + quoted(value) + ": must be " +
                     std::string(rule.allowed) + suggestion(rule, value));
    }
    specification->values.set(name, value);
    return Status::ok();
  }
  return unknown_parameter(name, rules);
}

/// Parses "a=b,c=d" onto the defaults.
Status set_parameters(std::string_view list, Specification* specification) {
  if (specification->codec.family->parameters.empty()) {
    return invalid("codec " + std::string(specification->codec.name) +
                   " takes no parameters, got " + quoted(list));
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
    RINGPRESS_RETURN_IF_ERROR(set_parameter(name, item.substr(equals + 1), specification));
    if (item.size() == list.size()) return Status::ok();
    list.remove_prefix(item.size() + 1);
  }
}

/// A codec with a parameter whose value is the word `name`: "lloyd" is meant as "q4:grid=lloyd".
std::optional<std::string> example_with_value(std::string_view name) {
  if (name.empty() || std::isalpha(static_cast<unsigned char>(name[0])) == 0) return std::nullopt;
  const std::string ending = "=" + std::string(name);
  for (const CodecEntry& codec : codec_list()) {
    for (const auto& example : codec.family->examples) {
      if (std::string_view(example.specification).ends_with(ending)) {
        return std::string(example.specification);
      }
    }
  }
  return std::nullopt;
}

Result<CodecEntry> find_codec(std::string_view name) {
  std::vector<std::string_view> names;
  std::string list;
  for (const CodecEntry& codec : codec_list()) {
    if (codec.name == name) return codec;
    names.push_back(codec.name);
    list += (list.empty() ? "" : ", ") + std::string(codec.name);
  }
  const std::optional<std::string> example = example_with_value(name);
  const std::string meant = example ? " (maybe " + *example + "?)" : maybe_name(name, names);
  return invalid("unknown codec " + quoted(name) + meant + "; known: " + list);
}

}  // namespace

bool accepts(const ParameterRule& rule, std::string_view value) {
  if (rule.accepts != nullptr) return rule.accepts(value);
  const std::vector<std::string> words = words_of(rule);
  return std::find(words.begin(), words.end(), value) != words.end();
}

const std::vector<CodecEntry>& codec_list() {
  // Never destroyed: threads may still work while the process ends.
  static const std::vector<CodecEntry>& kCodecs = *new std::vector<CodecEntry>{
#define RINGPRESS_CODEC(name, folder, bits) CodecEntry{#name, &folder::family(), bits},
#include "compress_kernels/codecs.inc"
#undef RINGPRESS_CODEC
  };
  return kCodecs;
}

Result<Specification> parse_specification(const std::string& text) {
  const std::size_t end = text.find_first_of(":,= ");
  // A name that is missing is best shown by what stands in its place.
  const std::string_view name = std::string_view(text).substr(0, end == 0 ? text.size() : end);
  Specification specification;
  RINGPRESS_ASSIGN_OR_RETURN(specification.codec, find_codec(name));
  if (end != std::string::npos && text[end] != ':') {
    return invalid("codec " + quoted(text) + ": parameters follow a colon, as in q4:block=64");
  }
  const CodecFamily& family = *specification.codec.family;
  specification.values = ParameterValues(family.parameters);
  if (end != std::string::npos) {
    RINGPRESS_RETURN_IF_ERROR(
        set_parameters(std::string_view(text).substr(end + 1), &specification));
  }
  if (family.settle != nullptr) {
    RINGPRESS_RETURN_IF_ERROR(family.settle(specification.codec, specification.values));
  }
  return specification;
}

std::string to_string(const Specification& specification) {
  return std::string(specification.codec.name) + specification.values.to_string();
}

}  // namespace ringpress::compress_kernels
