// The open files of this process, and what CollNet takes of them.
#ifndef NCCL_PLUGIN_PLUGIN_DESCRIPTORS_H_
#define NCCL_PLUGIN_PLUGIN_DESCRIPTORS_H_

#include <algorithm>
#include <cstddef>
#include <string>

namespace ringpress::nccl_plugin::plugin {

/// The most that a communicator of so many nodes has open at a moment, besides the socket that it
/// listens at: while it connects, or with a connection to and from every other node in each of its
/// two lanes, of so many TCP sockets (`sockets`, RINGPRESS_SOCKETS) or through shared memory.
constexpr std::size_t collnet_descriptors(std::size_t nodes, std::size_t sockets) {
  return 11 + 4 * std::max<std::size_t>(sockets, 2) * (nodes - 1);
}

struct DescriptorCount {
  std::size_t limit = 0;  // What `ulimit -n` says; 0: there is none, or it is not known.
  std::size_t open = 0;

  bool has_room_for(std::size_t more) const { return limit == 0 || open + more <= limit; }
};

/// Of this process now. Any thread; other threads may open and close meanwhile.
DescriptorCount count_descriptors();

/// "40 at most (ulimit -n), 35 of them in use".
std::string describe(const DescriptorCount& count);

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_DESCRIPTORS_H_
