// Quantities as people type them: parameters, types, rates.
#ifndef NCCL_PLUGIN_COMMAND_ESTIMATE_QUANTITIES_H_
#define NCCL_PLUGIN_COMMAND_ESTIMATE_QUANTITIES_H_

#include <string>

#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin::command {

/// Each throws terminal::Error with `option`, the text and what is allowed.

/// "1.3B", "1.3G", "7b", "350M", "125000000": powers of ten.
double read_count(const std::string& option, const std::string& text);

/// "bf16", "bfloat16", "fp32", "float32", "fp16", "half", ...
DType read_dtype(const std::string& option, const std::string& text);

/// Bytes a second of "100gbit", "100Gb/s", "400Gbps", "25G", "10gbe". Bits alone: what is written
/// as bytes is refused.
double read_rate(const std::string& option, const std::string& text);

/// Seconds of "50us", "1.5ms" or "2s".
double read_time(const std::string& option, const std::string& text);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_ESTIMATE_QUANTITIES_H_
