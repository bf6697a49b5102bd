// RINGPRESS_TUNING_LOG: what was tried, what it took, and what was decided.
#ifndef NCCL_PLUGIN_SESSION_TUNING_TUNING_LOG_H_
#define NCCL_PLUGIN_SESSION_TUNING_TUNING_LOG_H_

#include <cstddef>
#include <string>

#include "ringpress/internal/tuning.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin::tuning {

/// The names and units of the columns, and a line of them, without newlines.
std::string tuning_log_header();
struct TunedClass {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  DType dtype = DType::kFloat32;
  std::size_t bytes = 0;  // From so many up to twice as many, less one.
};
std::string tuning_log_line(const TunedClass& calls, const TuningNote& note,
                            const std::string& codec);

/// Appends lines to the file; the header first, if it is new or empty. Each line is there when the
/// call returns. A failure is a warning.
void append_to_tuning_log(const std::string& path, const std::string& line);

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_SESSION_TUNING_TUNING_LOG_H_
