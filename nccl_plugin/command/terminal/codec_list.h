// Lists of codecs as people write them.
#ifndef NCCL_PLUGIN_COMMAND_TERMINAL_CODEC_LIST_H_
#define NCCL_PLUGIN_COMMAND_TERMINAL_CODEC_LIST_H_

#include <string>
#include <vector>

namespace ringpress::terminal {

/// "none,q4:block=64,grid=minmax,q8" to specifications: a part that is only `key=value` belongs to
/// the one before it. Throws Error that begins with the name of the option.
std::vector<std::string> split_codecs(const std::string& option, const std::string& text);

}  // namespace ringpress::terminal

#endif  // NCCL_PLUGIN_COMMAND_TERMINAL_CODEC_LIST_H_
