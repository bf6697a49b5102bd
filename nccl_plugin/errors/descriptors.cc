#include "nccl_plugin/errors/descriptors.h"

#include <dirent.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

namespace ringpress::nccl_plugin {
namespace {

/// Numbers below `limit`, besides that of the folder itself.
std::size_t count_open(DIR* folder, std::size_t limit) {
  std::size_t open = 0;
  while (const dirent* const entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    const unsigned long number = std::strtoul(entry->d_name, nullptr, 10);
    if (number < limit && number != static_cast<unsigned long>(dirfd(folder))) ++open;
  }
  return open;
}

}  // namespace

DescriptorCount count_descriptors() {
  DescriptorCount count;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return count;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  if (folder == nullptr && errno != EMFILE) return count;
  count.limit = limit.rlim_cur;
  count.open = folder != nullptr ? count_open(folder.get(), count.limit) : count.limit;
  return count;
}

std::string describe(const DescriptorCount& count) {
  if (count.limit == 0) return "no limit is known";
  return std::to_string(count.limit) + " at most (ulimit -n), " + std::to_string(count.open) +
         " of them in use";
}

}  // namespace ringpress::nccl_plugin
