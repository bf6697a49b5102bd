// Numbers as people read them.
#ifndef NCCL_PLUGIN_COMMAND_REPORT_NUMBERS_H_
#define NCCL_PLUGIN_COMMAND_REPORT_NUMBERS_H_

#include <cstdint>
#include <string>

namespace ringpress::nccl_plugin::command::report {

/// "812 bytes", "1.5 kB", "84 MB": powers of 1000.
std::string bytes_text(double bytes);
/// "0.8 ms", "12 s", "3.5 min", "2.1 h"
std::string seconds_text(double seconds);
/// "96 %"; "less than 1 %" of what is not 0; "100 %" only of all.
std::string percent_text(double part, double whole);
/// Three digits that count, such as 0.0123 or 7.65.
std::string number_text(double value);
/// "1 call", "2 calls".
std::string counted(std::uint64_t count, const std::string& thing);
/// The codec of a specification: q4 of q4:block=128.
std::string short_codec(const std::string& specification);

}  // namespace ringpress::nccl_plugin::command::report

#endif  // NCCL_PLUGIN_COMMAND_REPORT_NUMBERS_H_
