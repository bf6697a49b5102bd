#include "nccl_plugin/plugin/object.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>

namespace ringpress::nccl_plugin::plugin {
namespace {

// A handle's bits, from the lowest: the slot, the kind, and how often the slot has been used.
constexpr unsigned kSlotBits = 24;
constexpr unsigned kKindBits = 8;
constexpr std::uint64_t kOneUse = std::uint64_t{1} << (kSlotBits + kKindBits);

constexpr std::size_t kChunkSlots = 1024;
constexpr std::size_t kMostChunks = (std::size_t{1} << kSlotBits) / kChunkSlots;
constexpr std::size_t kNoSlot = ~std::size_t{0};

static_assert(sizeof(void*) == sizeof(std::uint64_t));

std::size_t slot_index(std::uint64_t number) {
  return number & ((std::uint64_t{1} << kSlotBits) - 1);
}

ObjectKind kind_of(std::uint64_t number) {
  return static_cast<ObjectKind>(number >> kSlotBits);
}

std::uint64_t number_of(const void* handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}

/// Slots are added and never taken away, so that one is looked at without a lock.
class HandleTable {
 public:
  std::uint64_t add(Object* object, ObjectKind kind) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (first_free_ == kNoSlot) add_chunk();
    const std::size_t index = first_free_;
    Slot& slot = slot_at(index);
    first_free_ = slot.next_free;
    slot.uses += kOneUse;
    if (slot.uses == 0) slot.uses = kOneUse;  // All numbers were used: begin anew.
    const std::uint64_t number = slot.uses | static_cast<std::uint64_t>(kind) << kSlotBits | index;
    slot.object.store(object, std::memory_order_relaxed);
    slot.number.store(number, std::memory_order_release);
    return number;
  }

  void remove(std::uint64_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot& slot = slot_at(slot_index(number));
    slot.number.store(0, std::memory_order_relaxed);
    slot.object.store(nullptr, std::memory_order_relaxed);
    slot.next_free = first_free_;
    first_free_ = slot_index(number);
  }

  Object* find(std::uint64_t number) const {
    const std::size_t index = slot_index(number);
    const Chunk* const chunk = chunks_[index / kChunkSlots].load(std::memory_order_acquire);
    if (chunk == nullptr || number == 0) return nullptr;
    const Slot& slot = (*chunk)[index % kChunkSlots];
    if (slot.number.load(std::memory_order_acquire) != number) return nullptr;
    return slot.object.load(std::memory_order_relaxed);
  }

 private:
  struct Slot {
    std::atomic<std::uint64_t> number{0};  // Of the handle; 0: free.
    std::atomic<Object*> object{nullptr};
    std::uint64_t uses = 0;           // In kOneUse.
    std::size_t next_free = kNoSlot;  // Of a free one.
  };
  using Chunk = std::array<Slot, kChunkSlots>;

  Slot& slot_at(std::size_t index) {
    return (*chunks_[index / kChunkSlots].load(std::memory_order_relaxed))[index % kChunkSlots];
  }

  void add_chunk() {
    if (chunk_count_ == kMostChunks) throw std::bad_alloc();
    Chunk* const chunk = new Chunk;
    const std::size_t first = chunk_count_ * kChunkSlots;
    for (std::size_t i = 0; i + 1 < kChunkSlots; ++i) (*chunk)[i].next_free = first + i + 1;
    chunks_[chunk_count_++].store(chunk, std::memory_order_release);
    first_free_ = first;
  }

  std::mutex mutex_;
  std::array<std::atomic<Chunk*>, kMostChunks> chunks_{};
  std::size_t chunk_count_ = 0;
  std::size_t first_free_ = kNoSlot;
};

HandleTable& handles() {
  static HandleTable* const kept = new HandleTable;  // Lives until the process ends.
  return *kept;
}

}  // namespace

Object::Object(ObjectKind kind) : number_(handles().add(this, kind)) {}

Object::~Object() {
  handles().remove(number_);
}

void* Object::handle() const {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(number_));
}

Object* object_of(const void* handle) {
  return handles().find(number_of(handle));
}

Object* object_of(const void* handle, ObjectKind kind) {
  const std::uint64_t number = number_of(handle);
  return kind_of(number) == kind ? handles().find(number) : nullptr;
}

Status no_object(const void* handle, ObjectKind kind) {
  const std::string name = object_kind_name(kind);
  if (handle == nullptr) return Status(Code::kInvalidArgument, "the " + name + " is null");
  const char* const why = object_of(handle) == nullptr ? ": nothing has this handle" : "";
  return Status(Code::kInvalidArgument, "not a " + name + why);
}

}  // namespace ringpress::nccl_plugin::plugin
