// What CollNet takes of a process's open files.
#ifndef NCCL_PLUGIN_PLUGIN_COLLNET_DESCRIPTORS_H_
#define NCCL_PLUGIN_PLUGIN_COLLNET_DESCRIPTORS_H_

#include <algorithm>
#include <cstddef>

namespace ringpress::nccl_plugin::plugin {

/// The most that a communicator of so many nodes has open at a moment, besides the socket that it
/// listens at: while it connects, or with a connection to and from every other node in each of its
/// two workers, of so many TCP sockets (`sockets`, RINGPRESS_SOCKETS) or through shared memory.
constexpr std::size_t collnet_descriptors(std::size_t nodes, std::size_t sockets) {
  return 11 + 4 * std::max<std::size_t>(sockets, 2) * (nodes - 1);
}

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_COLLNET_DESCRIPTORS_H_
