// Memory that NCCL has registered with a connection or a communicator. Nothing is done for host
// memory; its place is kept, so that calls for data outside of it are refused.
#ifndef NCCL_PLUGIN_PLUGIN_REGISTERED_MEMORY_H_
#define NCCL_PLUGIN_PLUGIN_REGISTERED_MEMORY_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "nccl_plugin/plugin/object.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::plugin {

/// A piece of host memory, as NCCL names it.
struct MemoryRange {
  const void* data = nullptr;
  std::size_t bytes = 0;
};

/// What a memory handle stands for.
struct RegisteredBuffer : Object {
  RegisteredBuffer(ObjectKind kind, const MemoryRange& registered)
      : Object(kind), range(registered) {}
  const MemoryRange range;
};

/// What is registered with one connection; gone with it. Any threads, while another one
/// moves data.
class RegisteredMemory {
 public:
  /// Its handles are objects of `kind`.
  explicit RegisteredMemory(ObjectKind kind) : kind_(kind) {}

  /// The handle, never null. The same memory may be registered again, and has several then.
  /// kInvalidArgument: null, or beyond the end of all addresses; kUnsupported: not host memory.
  Result<void*> add(const MemoryRange& range, int pointer_type);

  /// kInvalidArgument: not a handle of add() of this object, or released before. Null was never
  /// registered and is gone already.
  Status remove(const void* mhandle);

 private:
  const ObjectKind kind_;
  std::mutex mutex_;  // Of the pieces.
  std::vector<std::unique_ptr<RegisteredBuffer>> pieces_;
};

/// That `mhandle` is registered and has all of `used` in it, whatever connection of this kind it
/// was registered with. Null: not registered, which host memory need not be. No lock, no allocation
/// unless it is refused.
Status check_registered(const void* mhandle, ObjectKind kind, const MemoryRange& used);

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_REGISTERED_MEMORY_H_
