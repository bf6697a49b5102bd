#include "nccl_plugin/session/lazy/lazy_flusher.h"

#include <mutex>
#include <utility>

namespace ringpress::nccl_plugin {
namespace {

struct KnownFlusher {
  std::mutex mutex;
  LazyFlusher flusher;
};

/// Lives for ever: threads may outlive main().
KnownFlusher& known_flusher() {
  static auto* const one = new KnownFlusher;
  return *one;
}

}  // namespace

void set_lazy_flusher(LazyFlusher flusher) {
  const std::lock_guard lock(known_flusher().mutex);
  known_flusher().flusher = std::move(flusher);
}

LazyFlusher lazy_flusher() {
  const std::lock_guard lock(known_flusher().mutex);
  return known_flusher().flusher;
}

}  // namespace ringpress::nccl_plugin
