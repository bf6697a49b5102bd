#include "nccl_plugin/session/settings/budget_error.h"

#include <charconv>

#include "ringpress/internal/decision.h"
#include "ringpress/internal/names.h"

namespace ringpress::nccl_plugin {
namespace {

struct UsualError {
  std::string_view codec;
  double error;
};

// Fewest bits first. Of sums of gradients of a convolution net and a transformer, as `perf/demo.sh`
// measures them (perf/results/demo.json); BudgetError in tests/ holds them against the codecs.
constexpr UsualError kUsualErrors[] = {{"q2", 1.3},   {"q3", 0.47},   {"q4", 0.21},
                                       {"q5", 0.1},   {"q6", 0.048},  {"q7", 0.024},
                                       {"q8", 0.012}, {"bf16", 0.004}};

}  // namespace

double usual_error(std::string_view codec) {
  for (const UsualError& known : kUsualErrors) {
    if (known.codec == codec) return known.error;
  }
  return 0;
}

std::string_view codec_that_loses_less(std::string_view codec) {
  constexpr std::string_view kAccurate = "q8";
  const std::string_view name = codec.substr(0, codec.find(':'));
  // fp16 is not in the list: it loses a part of what bf16 loses.
  const double error = usual_error(name == "fp16" ? "bf16" : name);
  return error != 0 && error <= usual_error(kAccurate) ? kLosslessCodec : kAccurate;
}

std::string codec_within(double error) {
  for (const UsualError& known : kUsualErrors) {
    if (known.error <= error) return std::string(known.codec);
  }
  return std::string(kNoCodec);
}

std::optional<BudgetChoice> read_budget(const std::string& text) {
  constexpr std::string_view kError = BudgetChoice::kError;
  if (!text.starts_with(kError)) return BudgetChoice{text, 0};
  const char* const end = text.data() + text.size();
  double error = 0;
  const auto parsed = std::from_chars(text.data() + kError.size(), end, error);
  const bool is_error = parsed.ec == std::errc() && parsed.ptr == end && error > 0 && error < 1e9;
  if (!is_error) return std::nullopt;
  return BudgetChoice{codec_within(error), error};
}

std::string meant_error(const std::string& text) {
  const std::size_t begin = text.find_first_of("0123456789.");
  if (begin == text.npos) return "";
  std::string meant = BudgetChoice::kError + text.substr(begin);
  const std::string word = text.substr(0, text.substr(0, begin).find_last_not_of(" =:") + 1);
  // A whole number alone is rather a number of bits.
  const bool is_named =
      word.empty() ? text.find_first_of(".e") != text.npos : !near_name(word, {"error"}).empty();
  return is_named && read_budget(meant) ? meant : "";
}

}  // namespace ringpress::nccl_plugin
