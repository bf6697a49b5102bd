// The open files of this process.
#ifndef NCCL_PLUGIN_ERRORS_DESCRIPTORS_H_
#define NCCL_PLUGIN_ERRORS_DESCRIPTORS_H_

#include <cstddef>
#include <string>

namespace ringpress::nccl_plugin {

struct DescriptorCount {
  std::size_t limit = 0;  // What `ulimit -n` says; 0: there is none, or it is not known.
  std::size_t open = 0;

  bool has_room_for(std::size_t more) const { return limit == 0 || open + more <= limit; }
};

/// Of this process now. Any thread; other threads may open and close meanwhile.
DescriptorCount count_descriptors();

/// "40 at most (ulimit -n), 35 of them in use".
std::string describe(const DescriptorCount& count);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_ERRORS_DESCRIPTORS_H_
