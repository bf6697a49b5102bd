#include "nccl_plugin/errors/warn_once.h"

#include <mutex>
#include <set>

#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin {

void warn_once(const std::string& text) {
  // They outlive threads that work while the process ends.
  static std::mutex& mutex = *new std::mutex;
  static auto& logged = *new std::set<std::string>;
  {
    const std::lock_guard lock(mutex);
    if (!logged.insert(text).second) return;
  }
  log_line(LogLevel::kWarn, "%s", text.c_str());
}

}  // namespace ringpress::nccl_plugin
