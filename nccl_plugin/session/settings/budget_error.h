// RINGPRESS_BUDGET=error=E: which codec that is.
#ifndef NCCL_PLUGIN_SESSION_SETTINGS_BUDGET_ERROR_H_
#define NCCL_PLUGIN_SESSION_SETTINGS_BUDGET_ERROR_H_

#include <optional>
#include <string>
#include <string_view>

#include "ringpress/internal/setting_types.h"

namespace ringpress::nccl_plugin {

/// What an all-reduce of gradients with error feedback loses in one call, relative to the exact
/// sum, in the l2 norm. 0: it is not known of that codec.
double usual_error(std::string_view codec);

/// What to name to somebody who wants to lose less than with `codec`: `q8`, or `lossless` where the
/// codec, whatever its parameters, loses no more than `q8` itself.
std::string_view codec_that_loses_less(std::string_view codec);

/// The codec with the fewest bits that loses no more; `none` if all lose more.
std::string codec_within(double error);

/// What RINGPRESS_BUDGET says. No value: an error that is none. Whether a codec is one is not
/// looked at.
std::optional<BudgetChoice> read_budget(const std::string& text);
/// What is meant by what may be a slip of an error, such as 0.1 or error:0.1; empty: it is none.
std::string meant_error(const std::string& text);
inline constexpr const char* kExpectedBudget =
    "a codec, or error= and a number above 0, such as error=0.1";

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_SETTINGS_BUDGET_ERROR_H_
