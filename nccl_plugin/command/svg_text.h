// What pictures say.
#ifndef NCCL_PLUGIN_COMMAND_SVG_TEXT_H_
#define NCCL_PLUGIN_COMMAND_SVG_TEXT_H_

#include <string>

namespace ringpress::nccl_plugin::command {

/// As text between the tags of an SVG: names come from files that people write.
std::string escaped(const std::string& text);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_SVG_TEXT_H_
