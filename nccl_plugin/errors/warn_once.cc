#include "nccl_plugin/errors/warn_once.h"

#include <atomic>
#include <memory>

#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin {
namespace {

/// What has been logged, newest first. It only grows, and outlives threads that work while the
/// process ends.
struct Logged {
  std::string text;
  const Logged* before = nullptr;
};
std::atomic<const Logged*> newest_logged{nullptr};

}  // namespace

/// Without a lock: the thread that exits may have it, in a handler of a signal.
void warn_once(const std::string& text) {
  std::unique_ptr<Logged> own;
  const Logged* newest = newest_logged.load();
  const Logged* seen = nullptr;
  do {
    for (const Logged* one = newest; one != seen; one = one->before) {
      if (one->text == text) return;
    }
    seen = newest;
    if (own == nullptr) own = std::make_unique<Logged>(Logged{text});
    own->before = newest;
  } while (!newest_logged.compare_exchange_weak(newest, own.get()));
  static_cast<void>(own.release());
  log_line(LogLevel::kWarn, "%s", text.c_str());
}

}  // namespace ringpress::nccl_plugin
