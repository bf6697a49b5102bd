// What in the environment takes something away from this library, and what to do about it: what
// `ringpress run` warns of, and part of what `ringpress doctor` finds.
#ifndef NCCL_PLUGIN_COMMAND_ADVICE_H_
#define NCCL_PLUGIN_COMMAND_ADVICE_H_

#include <optional>
#include <string>
#include <vector>

#include "nccl_plugin/command/environment.h"
#include "nccl_plugin/command/libraries.h"

namespace ringpress::nccl_plugin::command {

struct Advice {
  bool fatal = false;  // The job fails, or the plugin compresses nothing against the user's will.
  std::string text;
  std::string remedy;  // Never empty.
};

/// How a program reaches this library.
enum class Door {
  kPreloaded,  // A: before NVIDIA's NCCL.
  kPlugin,     // B: in NVIDIA's NCCL.
  kHost,       // C: in place of NCCL, on host memory.
};

/// On the settings of this library: names, values, and what they name on this machine.
std::vector<Advice> advise_on_settings(const JobEnvironment& environment,
                                       Door door = Door::kPlugin);

/// On RINGPRESS_NEXT_NET_PLUGIN, where it is set and cannot be used. `ours`: this library's tables;
/// empty if nobody could look.
std::optional<Advice> advise_on_next_plugin(const PluginLibrary& next, const Tables& ours);

/// Whether the plugin compresses nothing where NCCL does not tell which tensor a piece belongs to,
/// as gradients cannot be told from other sums then.
bool needs_known_gradients(const JobEnvironment& environment);

/// The codec that the plugin would use, if that compresses nothing where NCCL does not tell which
/// tensor a piece belongs to; else empty.
std::string codec_for_known_tensors_only(const JobEnvironment& environment);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_ADVICE_H_
