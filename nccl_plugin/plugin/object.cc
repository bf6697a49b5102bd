#include "nccl_plugin/plugin/object.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>
#include <type_traits>

namespace ringpress::nccl_plugin::plugin {
namespace {

// A handle's bits, from the lowest: the slot, the kind, and how often the slot has been used.
constexpr unsigned kSlotBits = 24;
constexpr unsigned kKindBits = 8;
constexpr std::uint64_t kOneUse = std::uint64_t{1} << (kSlotBits + kKindBits);

constexpr std::size_t kChunkSlots = 1024;
constexpr std::size_t kMostChunks = (std::size_t{1} << kSlotBits) / kChunkSlots;

static_assert(sizeof(void*) == sizeof(std::uint64_t));

std::size_t slot_index(std::uint64_t number) {
  return number & ((std::uint64_t{1} << kSlotBits) - 1);
}

constexpr ObjectKind kNoKind{0};

ObjectKind kind_of(std::uint64_t number) {
  return static_cast<ObjectKind>(number >> kSlotBits);
}

std::uint64_t number_of(const void* handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}

/// Slots are added and never taken away, so that one is looked at without a lock. All zero at
/// first, and never destroyed.
class HandleTable {
 public:
  std::uint64_t add(Object* object, ObjectKind kind) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_ == 0) add_chunk();
    const std::size_t index = free_ - 1;
    Slot& slot = slot_at(index);
    free_ = slot.content.load(std::memory_order_relaxed);
    std::uint64_t uses = slot.number.load(std::memory_order_relaxed) / kOneUse * kOneUse + kOneUse;
    if (uses == 0) uses = kOneUse;  // All were used: begin anew.
    const std::uint64_t number = uses | static_cast<std::uint64_t>(kind) << kSlotBits | index;
    slot.content.store(reinterpret_cast<std::uintptr_t>(object), std::memory_order_relaxed);
    slot.number.store(number, std::memory_order_release);
    return number;
  }

  void remove(std::uint64_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::size_t index = slot_index(number);
    Slot& slot = slot_at(index);
    slot.number.store(number / kOneUse * kOneUse, std::memory_order_relaxed);
    slot.content.store(free_, std::memory_order_relaxed);
    free_ = index + 1;
  }

  Object* find(std::uint64_t number) const {
    const std::size_t index = slot_index(number);
    const Chunk* const chunk = chunks_[index / kChunkSlots].load(std::memory_order_acquire);
    if (chunk == nullptr || kind_of(number) == kNoKind) return nullptr;
    const Slot& slot = (*chunk)[index % kChunkSlots];
    if (slot.number.load(std::memory_order_acquire) != number) return nullptr;
    return reinterpret_cast<Object*>(slot.content.load(std::memory_order_relaxed));
  }

 private:
  struct Slot {
    std::atomic<std::uint64_t> number;    // Of the handle; of a free one: its uses alone.
    std::atomic<std::uintptr_t> content;  // The object; of a free one: the next free one, plus one.
  };
  using Chunk = std::array<Slot, kChunkSlots>;

  Slot& slot_at(std::size_t index) {
    return (*chunks_[index / kChunkSlots].load(std::memory_order_relaxed))[index % kChunkSlots];
  }

  void add_chunk() {
    if (chunk_count_ == kMostChunks) throw std::bad_alloc();
    Chunk* const chunk = new Chunk{};
    const std::size_t first = chunk_count_ * kChunkSlots;
    for (std::size_t i = 0; i + 1 < kChunkSlots; ++i) (*chunk)[i].content.store(first + i + 2);
    chunks_[chunk_count_++].store(chunk, std::memory_order_release);
    free_ = first + 1;
  }

  std::mutex mutex_;
  std::array<std::atomic<Chunk*>, kMostChunks> chunks_{};
  std::size_t chunk_count_ = 0;
  std::size_t free_ = 0;  // The first free slot, plus one; 0: none.
};

static_assert(std::is_trivially_destructible_v<HandleTable>);
constinit HandleTable handles;

}  // namespace

Object::Object(ObjectKind kind) : number_(handles.add(this, kind)) {}

Object::~Object() {
  handles.remove(number_);
}

void* Object::handle() const {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(number_));
}

Object* object_of(const void* handle) {
  return handles.find(number_of(handle));
}

Object* object_of(const void* handle, ObjectKind kind) {
  const std::uint64_t number = number_of(handle);
  return kind_of(number) == kind ? handles.find(number) : nullptr;
}

Status no_object(const void* handle, ObjectKind kind) {
  const std::string name = object_kind_name(kind);
  if (handle == nullptr) return Status(Code::kInvalidArgument, "the " + name + " is null");
  const char* const why = object_of(handle) == nullptr ? ": nothing has this handle" : "";
  return Status(Code::kInvalidArgument, "not a " + name + why);
}

}  // namespace ringpress::nccl_plugin::plugin
