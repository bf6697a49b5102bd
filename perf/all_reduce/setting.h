// What follows from the settings that a run measures.
#ifndef PERF_ALL_REDUCE_SETTING_H_
#define PERF_ALL_REDUCE_SETTING_H_

#include <string>
#include <vector>

#include "perf/all_reduce/options.h"

namespace ringpress::perf {

/// The setting of the communicator that ranks organise themselves with. Its calls are exact
/// whatever the setting is: no sum of theirs is of a type that is compressed. Where one setting is
/// measured, it has that one: preloaded, the library reads settings once in a process, and rank 0
/// makes the id before it makes a communicator.
Setting control_setting(const std::vector<Setting>& settings);

/// The codec of a library that cannot say what it did: what the setting or the environment names. A
/// plugin or a preloaded library chooses by itself where neither does ("auto"); plain NCCL: "none".
std::string named_codec(const Setting& setting);

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_SETTING_H_
