// What the pointers that NCCL is given, and gives back, point to begins with.
#ifndef NCCL_PLUGIN_PLUGIN_OBJECT_H_
#define NCCL_PLUGIN_PLUGIN_OBJECT_H_

#include <cstdint>
#include <string>

#include "ringpress/status.h"

namespace ringpress::nccl_plugin::plugin {

/// Each object begins with its kind, so that a pointer to another one is noticed.
enum class ObjectKind : std::uint32_t {
  kNetListener = 0x52504c31,
  kNetSender = 0x52505331,
  kNetReceiver = 0x52505231,
  kNetRequest = 0x52505131,
  kCollNetListener = 0x52504c32,
  kCollNetComm = 0x52504332,
  kCollNetRequest = 0x52505132,
  kCollNetContext = 0x52505832,
  kCollNetMemory = 0x52504d32,
};

struct Object {
  ObjectKind kind;
};

inline const char* object_kind_name(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kNetListener:
      return "listening communicator";
    case ObjectKind::kNetSender:
      return "sending communicator";
    case ObjectKind::kNetReceiver:
      return "receiving communicator";
    case ObjectKind::kNetRequest:
      return "request";
    case ObjectKind::kCollNetListener:
      return "listening communicator of CollNet";
    case ObjectKind::kCollNetComm:
      return "communicator of CollNet";
    case ObjectKind::kCollNetRequest:
      return "request of CollNet";
    case ObjectKind::kCollNetContext:
      return "context of CollNet";
    case ObjectKind::kCollNetMemory:
      return "memory handle of CollNet";
  }
  return "object";
}

/// One that is made and destroyed seldom: this process knows which there are.
class LiveObject : public Object {
 public:
  explicit LiveObject(ObjectKind own_kind);
  ~LiveObject();
  LiveObject(const LiveObject&) = delete;
  LiveObject& operator=(const LiveObject&) = delete;
};

/// Whatever it points to.
bool is_live(const void* object);

/// Code::kInvalidArgument for null, for what is no LiveObject (whatever it points to) or no longer
/// one, and for one of another kind. Takes a lock: for calls that come seldom.
Status check_live(const void* object, ObjectKind kind);

/// Code::kInvalidArgument for null and for an object of another kind. It must be an object.
inline Status check_kind(const void* object, ObjectKind kind) {
  if (object == nullptr) {
    return Status(Code::kInvalidArgument,
                  std::string("the ") + object_kind_name(kind) + " is null");
  }
  if (static_cast<const Object*>(object)->kind != kind) {
    return Status(Code::kInvalidArgument, std::string("not a ") + object_kind_name(kind));
  }
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_OBJECT_H_
