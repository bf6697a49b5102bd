// Numbers in messages.
#ifndef NCCL_PLUGIN_GOSSIP_TEXT_H_
#define NCCL_PLUGIN_GOSSIP_TEXT_H_

#include <array>
#include <cstdio>
#include <string>

namespace ringpress::nccl_plugin::gossip {

inline std::string text_of(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9g", value);
  return text.data();
}

}  // namespace ringpress::nccl_plugin::gossip

#endif  // NCCL_PLUGIN_GOSSIP_TEXT_H_
