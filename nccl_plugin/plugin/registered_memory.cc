#include "nccl_plugin/plugin/registered_memory.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "nccl_plugin/abi/types.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

std::uintptr_t address_of(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

/// No bytes are in every range.
bool contains(const MemoryRange& range, const MemoryRange& used) {
  if (used.bytes == 0) return true;
  const std::uintptr_t first = address_of(range.data);
  const std::uintptr_t begin = address_of(used.data);
  if (begin < first || begin - first > range.bytes) return false;
  return used.bytes <= range.bytes - (begin - first);
}

}  // namespace

Result<void*> RegisteredMemory::add(const MemoryRange& range, int pointer_type) {
  if (range.data == nullptr && range.bytes > 0) {
    return Status(Code::kInvalidArgument, "the memory is null");
  }
  if (pointer_type != abi::kPointerHost) {
    return Status(Code::kUnsupported, "memory of type " + std::to_string(pointer_type) +
                                          ": host memory only can be registered");
  }
  if (range.bytes > std::numeric_limits<std::uintptr_t>::max() - address_of(range.data)) {
    return Status(Code::kInvalidArgument,
                  std::to_string(range.bytes) + " bytes: no memory is so large");
  }
  const std::scoped_lock lock(mutex_);
  pieces_.push_back(std::make_unique<RegisteredBuffer>(kind_, range));
  return pieces_.back()->handle();
}

Status RegisteredMemory::remove(const void* mhandle) {
  if (mhandle == nullptr) return Status::ok();
  const std::scoped_lock lock(mutex_);
  const auto has_handle = [&](const auto& piece) { return piece->handle() == mhandle; };
  const auto found = std::find_if(pieces_.begin(), pieces_.end(), has_handle);
  if (found != pieces_.end()) {
    std::swap(*found, pieces_.back());
    pieces_.pop_back();
    return Status::ok();
  }
  if (object_of(mhandle, kind_) == nullptr) return no_object(mhandle, kind_);
  return Status(Code::kInvalidArgument, "memory that was registered with another communicator");
}

Status check_registered(const void* mhandle, ObjectKind kind, const MemoryRange& used) {
  if (mhandle == nullptr) return Status::ok();
  const auto* const piece = static_cast<RegisteredBuffer*>(object_of(mhandle, kind));
  if (piece == nullptr) return no_object(mhandle, kind);
  if (contains(piece->range, used)) return Status::ok();
  return Status(Code::kInvalidArgument,
                std::to_string(used.bytes) + " bytes that are not all in the " +
                    std::to_string(piece->range.bytes) + " bytes which its handle stands for");
}

}  // namespace ringpress::nccl_plugin::plugin
