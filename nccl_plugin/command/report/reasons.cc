#include "nccl_plugin/command/report/reasons.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace ringpress::nccl_plugin::command::report {
namespace {

constexpr auto kLastReason = static_cast<std::uint8_t>(ExactReason::kNonblocking);
/// Numbers of a reason that are names: kinds, types, operations and classes of calls.
constexpr std::uint32_t kNames = 32;
constexpr std::uint32_t kAnyNumber = 4000000000U;
constexpr std::string_view kAnyCodec = "\x01";

/// A text in which some parts may be anything.
struct Pattern {
  ExactReason reason = ExactReason::kNone;
  std::vector<std::string>
      parts;  // In this order, the first at the beginning, the last at the end.

  bool matches(std::string_view text) const {
    if (!text.starts_with(parts.front())) return false;
    text.remove_prefix(parts.front().size());
    if (parts.size() == 1) return text.empty();
    for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
      const std::size_t found = text.find(parts[i]);
      if (found == std::string_view::npos) return false;
      text.remove_prefix(found + parts[i].size());
    }
    return text.ends_with(parts.back());
  }
};

std::vector<std::string> split(std::string text, std::string_view at) {
  std::vector<std::string> parts;
  for (std::size_t found = text.find(at); found != std::string::npos; found = text.find(at)) {
    parts.push_back(text.substr(0, found));
    text.erase(0, found + at.size());
  }
  parts.push_back(text);
  return parts;
}

Pattern pattern_of(ExactReason reason, std::uint32_t number) {
  std::string text = to_text({reason, number, kAnyCodec});
  const std::string digits = std::to_string(number);
  if (number == kAnyNumber) {
    for (std::size_t at = text.find(digits); at != std::string::npos; at = text.find(digits)) {
      text.replace(at, digits.size(), kAnyCodec);
    }
  }
  return {reason, split(text, kAnyCodec)};
}

/// kCannotBegin is left out: its text is any.
std::vector<Pattern> all_patterns() {
  std::vector<Pattern> patterns;
  for (std::uint8_t i = 1; i <= kLastReason; ++i) {
    const auto reason = static_cast<ExactReason>(i);
    if (reason == ExactReason::kCannotBegin) continue;
    for (std::uint32_t number = 0; number < kNames; ++number) {
      patterns.push_back(pattern_of(reason, number));
    }
    patterns.push_back(pattern_of(reason, kAnyNumber));
  }
  return patterns;
}

Explanation of_calls(ExactReason reason) {
  switch (reason) {
    case ExactReason::kCollective:
      return {"Only all-reduces and reduce-scatters are compressed, and all-gathers if asked for.",
              "Nothing; preloaded, RINGPRESS_ALL_GATHER=1 compresses all-gathers."};
    case ExactReason::kType:
      return {"Only floating-point numbers are compressed: counts and flags must stay exact.", ""};
    case ExactReason::kOperator:
      return {
          "Only sums and averages are compressed: of a product or a maximum an error would be "
          "unbounded.",
          ""};
    case ExactReason::kPreMultiplied:
      return {"Sums that NCCL multiplies by a factor of the program's stay exact.", ""};
    case ExactReason::kSingleRank:
      return {"A communicator of one rank sends nothing.", ""};
    case ExactReason::kTooSmall:
      return {"Small calls wait for latency, not for bytes: compressing them gains nothing.",
              "Let the program send fewer, larger calls (PyTorch: bucket_cap_mb), or lower "
              "RINGPRESS_MIN_BYTES."};
    case ExactReason::kOneHost:
      return {"Ranks of one host share its memory, which is quicker than a codec.",
              "Nothing to gain here. RINGPRESS_CODEC=q4 compresses all the same, to try it."};
    case ExactReason::kNotRecurred:
      return {
          "Automatic mode compresses what repeats from step to step; this call had not yet.",
          "Nothing, if such calls are few. Else the program sends sizes or orders that change."};
    case ExactReason::kNoGradient:
      return {
          "Automatic mode compresses gradients. This call is not known to be one, as the text "
          "says.",
          "If it is a gradient: name its communicator (with the word dp), write a rule "
          "(RINGPRESS_RULES), or set RINGPRESS_GRADIENTS=all."};
    case ExactReason::kNonblocking:
      return {"The program asked for nonblocking communicators, whose calls stay NCCL's.",
              "Make the communicator a blocking one."};
    default:
      return {"", ""};
  }
}

Explanation of_settings(ExactReason reason) {
  switch (reason) {
    case ExactReason::kOff:
      return {"The library is switched off.", "Set RINGPRESS=on."};
    case ExactReason::kDeniedByRule:
      return {"A rule of yours leaves this call as it is.",
              "Change that line of the file RINGPRESS_RULES."};
    case ExactReason::kExactByCall:
      return {"The program says of this call that it stays exact.",
              "Leave out RINGPRESS_OPTION_CODEC=exact for it."};
    case ExactReason::kCodecNone:
      return {"The setting names no codec.", "Set RINGPRESS_CODEC=auto, or a codec such as q4."};
    case ExactReason::kBudgetNone:
      return {"The budget allows no codec.", "Set RINGPRESS_BUDGET=q8, which loses about 1 %."};
    case ExactReason::kBudgetUnmet:
      return {"The error that the budget allows is smaller than that of every codec.",
              "Allow more, such as RINGPRESS_BUDGET=error=0.02, or set RINGPRESS=lossless."};
    case ExactReason::kAllReducesOnly:
      return {"This codec works on all-reduces alone.", "Name one of q2 to q8 for other calls."};
    case ExactReason::kObserved:
      return {"The library only looks; the call would be compressed.", "Set RINGPRESS=on."};
    case ExactReason::kWarmUp:
      return {"The first steps of a training lose nothing, or hardly anything.",
              "Nothing: it ends by itself. RINGPRESS_WARMUP_STEPS sets how long it takes."};
    case ExactReason::kPutOff:
      return {"The sum was kept to be sent later, with others.",
              "Nothing; RINGPRESS_LAZY=0 sends each at once."};
    case ExactReason::kCaptured:
      return {"A captured CUDA graph would repeat the call as it is.", "Set RINGPRESS_GRAPH=1."};
    case ExactReason::kGraphRepeatsBits:
      return {"Stochastic rounding needs new random bits each time, which a graph does not have.",
              "Use a codec with round=nearest."};
    default:
      return {"", ""};
  }
}

Explanation of_experience(ExactReason reason) {
  switch (reason) {
    case ExactReason::kStepNoShorter:
      return {"The wire waits for the next gradient anyway: the step takes as long without.", ""};
    case ExactReason::kNothingGained:
      return {"Both were measured, and no codec within the budget was quicker than none.",
              "Nothing, if the network is fast. A budget of fewer bits sends less: "
              "RINGPRESS_BUDGET."};
    case ExactReason::kTrial:
      return {"Automatic mode measures now and then how long the call takes without a codec.", ""};
    case ExactReason::kLosesTooMuch:
      return {"The guard compared sums with exact ones, and they were too far off.",
              "Set RINGPRESS_BUDGET to a codec with more bits, such as q8, or allow more error."};
    default:
      return {"", ""};
  }
}

Explanation of_codecs(ExactReason reason) {
  switch (reason) {
    case ExactReason::kSavesNothing:
      return {"The codec makes values of this type no smaller.",
              "Use a codec with fewer bits, such as q4."};
    case ExactReason::kAgreesOnSums:
      return {"The codec needs sums, and an all-gather has none.", ""};
    case ExactReason::kNotInStreams:
      return {"The codec has no kernels for GPUs.", "Use one of q2 to q8."};
    case ExactReason::kUnknownEnd:
      return {"The call is a piece of a tensor whose end is not known.", ""};
    case ExactReason::kUnknownTensor:
      return {"Without knowing the tensor, what the codec leaves out cannot be added later.",
              "Use one of q4 to q8, or name the tensor (RINGPRESS_OPTION_TENSOR)."};
    case ExactReason::kProjectsWholeTensors:
      return {"The codec needs whole tensors, and the call is a piece of one.",
              "Use one of q2 to q8."};
    default:
      return {"", ""};
  }
}

Explanation of_room(ExactReason reason) {
  switch (reason) {
    case ExactReason::kNoMemoryForTensor:
    case ExactReason::kNoMemoryForGraph:
    case ExactReason::kNoMemoryOnRank:
      return {"The device has too little memory left for what a compressed call needs.",
              "Leave more memory free, or set RINGPRESS_EF=0, which keeps no residuals."};
    case ExactReason::kCannotBegin:
      return {"The library could not begin: the text is the error's.",
              "Mend what the error says; RINGPRESS_DEBUG=info says more."};
    default:
      return {"", ""};
  }
}

}  // namespace

Explanation explanation_of(ExactReason reason) {
  for (const auto of : {of_calls, of_settings, of_experience, of_codecs, of_room}) {
    const Explanation found = of(reason);
    if (*found.meaning != '\0') return found;
  }
  return {"", ""};
}

bool is_by_nature(ExactReason reason) {
  return reason == ExactReason::kCollective || reason == ExactReason::kType ||
         reason == ExactReason::kOperator || reason == ExactReason::kPreMultiplied ||
         reason == ExactReason::kSingleRank;
}

std::optional<ExactReason> find_reason(std::string_view text) {
  static const std::vector<Pattern>* const kPatterns = new std::vector<Pattern>(all_patterns());
  for (const Pattern& pattern : *kPatterns) {
    if (pattern.matches(text)) return pattern.reason;
  }
  return std::nullopt;
}

Explanation explanation_of(std::string_view text) {
  return explanation_of(find_reason(text).value_or(ExactReason::kCannotBegin));
}

}  // namespace ringpress::nccl_plugin::command::report
