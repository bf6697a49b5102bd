#include "nccl_plugin/plugin/object.h"

#include <mutex>
#include <unordered_set>

namespace ringpress::nccl_plugin::plugin {
namespace {

struct LiveObjects {
  std::mutex mutex;
  std::unordered_set<const void*> addresses;
};

LiveObjects& live_objects() {
  static LiveObjects* const kept = new LiveObjects;  // Lives until the process ends.
  return *kept;
}

}  // namespace

LiveObject::LiveObject(ObjectKind own_kind) : Object{own_kind} {
  const std::lock_guard<std::mutex> lock(live_objects().mutex);
  live_objects().addresses.insert(this);
}

LiveObject::~LiveObject() {
  const std::lock_guard<std::mutex> lock(live_objects().mutex);
  live_objects().addresses.erase(this);
}

bool is_live(const void* object) {
  const std::lock_guard<std::mutex> lock(live_objects().mutex);
  return live_objects().addresses.contains(object);
}

Status check_live(const void* object, ObjectKind kind) {
  if (object == nullptr) return check_kind(object, kind);
  const std::lock_guard<std::mutex> lock(live_objects().mutex);
  if (live_objects().addresses.contains(object)) return check_kind(object, kind);
  return Status(Code::kInvalidArgument,
                std::string("not a ") + object_kind_name(kind) + ": nothing has this address");
}

}  // namespace ringpress::nccl_plugin::plugin
