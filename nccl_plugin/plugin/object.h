// What the handles that NCCL is given, and gives back, stand for.
//
// A handle is a number and not an address: one that never was, that stands for something of another
// kind, or for something that is closed, is noticed without a look at any memory behind it, even
// when something new lies where the closed thing lay.
#ifndef NCCL_PLUGIN_PLUGIN_OBJECT_H_
#define NCCL_PLUGIN_PLUGIN_OBJECT_H_

#include <cstdint>
#include <string>

#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::plugin {

enum class ObjectKind : std::uint8_t {
  kNetContext = 1,
  kNetListener,
  kNetSender,
  kNetReceiver,
  kNetRequest,
  kNetMemory,
  kNextNetContext,
  kCollNetContext,
  kCollNetListener,
  kCollNetComm,
  kCollNetRequest,
  kCollNetMemory,
  kTuner,
  kProfiledComm,
};

inline const char* object_kind_name(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kNetContext:
    case ObjectKind::kNextNetContext:
      return "context of the network";
    case ObjectKind::kNetListener:
      return "listening communicator";
    case ObjectKind::kNetSender:
      return "sending communicator";
    case ObjectKind::kNetReceiver:
      return "receiving communicator";
    case ObjectKind::kNetRequest:
      return "request";
    case ObjectKind::kNetMemory:
      return "memory handle";
    case ObjectKind::kCollNetContext:
      return "context of CollNet";
    case ObjectKind::kCollNetListener:
      return "listening communicator of CollNet";
    case ObjectKind::kCollNetComm:
      return "communicator of CollNet";
    case ObjectKind::kCollNetRequest:
      return "request of CollNet";
    case ObjectKind::kCollNetMemory:
      return "memory handle of CollNet";
    case ObjectKind::kTuner:
      return "context of the tuner";
    case ObjectKind::kProfiledComm:
      return "context of the profiler";
  }
  return "object";
}

/// Has a handle from its making to its end, never null nor that of an earlier one. To make and to
/// destroy one takes a lock; std::bad_alloc where there are too many.
class Object {
 public:
  explicit Object(ObjectKind kind);
  ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  void* handle() const;

 private:
  const std::uint64_t number_;
};

/// Whatever it is: null if nothing has this handle. No lock.
Object* object_of(const void* handle);

/// Null unless something of this kind has the handle. No lock.
Object* object_of(const void* handle, ObjectKind kind);

/// kInvalidArgument, in words: the handle is null, of another kind, or nothing has it.
Status no_object(const void* handle, ObjectKind kind);

/// The same as a T, whose kind is T::kKind.
template <typename T>
T* object_as(const void* handle) {
  return static_cast<T*>(object_of(handle, T::kKind));
}

/// The same; or no_object().
template <typename T>
Result<T*> find_object(const void* handle) {
  T* const object = object_as<T>(handle);
  if (object == nullptr) return no_object(handle, T::kKind);
  return object;
}

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_OBJECT_H_
