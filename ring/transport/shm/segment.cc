#include "ring/transport/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <new>

namespace ringpress::ring::transport::shm {
namespace {

constexpr std::uintptr_t kPageBytes = 4096;
// Addresses, not memory: pages are taken when they are first touched.
constexpr std::size_t kStagingBytes = std::size_t{64} << 20;
constexpr std::size_t kStagingBytesPerRank = std::size_t{8} << 20;

std::size_t queues_offset() {
  return sizeof(SegmentHead);
}

std::size_t bounce_offset(std::uint32_t world) {
  const std::size_t end = queues_offset() + world * sizeof(FrameQueue);
  return (end + 4095) / 4096 * 4096;
}

std::size_t staging_offset(std::uint32_t world) {
  return bounce_offset(world) + world * kBounceBytes;
}

std::size_t segment_bytes(std::uint32_t world) {
  return staging_offset(world) + kStagingBytes + world * kStagingBytesPerRank;
}

std::byte* map_file(int descriptor, std::size_t bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return base == MAP_FAILED ? nullptr : static_cast<std::byte*>(base);
}

}  // namespace

Segment::Segment(Fd file, std::byte* base, std::uint32_t world)
    : file_(std::move(file)),
      base_(base),
      world_(world),
      total_bytes_(segment_bytes(world)),
      next_free_(staging_offset(world)) {}

Segment::~Segment() {
  munmap(base_, total_bytes_);
}

Result<std::unique_ptr<Segment>> Segment::create(std::uint32_t world) {
  Fd file(memfd_create("ringpress", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return system_error("memfd_create");
  const std::size_t bytes = segment_bytes(world);
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return system_error("ftruncate");
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return system_error("sealing shared memory");
  }
  std::byte* base = map_file(file.get(), bytes);
  if (base == nullptr) return system_error("mmap");
  // The file is zero, which is how every atomic of the segment starts; placement makes the objects.
  new (base) SegmentHead;
  return std::unique_ptr<Segment>(new Segment(std::move(file), base, world));
}

Result<std::unique_ptr<Segment>> Segment::map(int descriptor, std::uint32_t world) {
  const int seals = fcntl(descriptor, F_GET_SEALS);
  struct stat info {};
  const std::size_t bytes = segment_bytes(world);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(descriptor, &info) != 0 ||
      static_cast<std::size_t>(info.st_size) != bytes) {
    return Status(Code::kMismatch, "the peer's shared memory has another layout");
  }
  std::byte* base = map_file(descriptor, bytes);
  if (base == nullptr) return system_error("mmap");
  return std::unique_ptr<Segment>(new Segment(Fd(), base, world));
}

FrameQueue& Segment::queue(std::uint32_t rank) const {
  return *reinterpret_cast<FrameQueue*>(base_ + queues_offset() + rank * sizeof(FrameQueue));
}

std::byte* Segment::bounce(std::uint32_t rank) const {
  return base_ + bounce_offset(world_) + rank * kBounceBytes;
}

void Segment::populate(std::uint32_t rank) const {
#ifdef MADV_POPULATE_WRITE
  // Advice only: a kernel before 5.14 refuses it, and the pages come when they are touched.
  const auto touch = [](void* start, std::size_t bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(start);
    const std::uintptr_t begin = address / kPageBytes * kPageBytes;
    static_cast<void>(
        madvise(reinterpret_cast<void*>(begin), address + bytes - begin, MADV_POPULATE_WRITE));
  };
  touch(&queue(rank), sizeof(FrameQueue));
  touch(bounce(rank), kBounceBytes);
#else
  static_cast<void>(rank);
#endif
}

Buffer Segment::allocate(std::size_t bytes) {
  const std::size_t rounded = (bytes + 4095) / 4096 * 4096;
  Buffer buffer;
  if (rounded < bytes || rounded > total_bytes_ - next_free_) return buffer;
  buffer.data = base_ + next_free_;
  buffer.bytes = rounded;
  next_free_ += rounded;
  return buffer;
}

std::uint64_t Segment::offset_of(ConstBuffer payload) const {
  const std::byte* begin = base_ + staging_offset(world_);
  const std::byte* end = base_ + total_bytes_;
  if (payload.data < begin || payload.data >= end) return 0;
  return static_cast<std::uint64_t>(payload.data - base_);
}

const std::byte* Segment::at(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset < staging_offset(world_) || offset > total_bytes_) return nullptr;
  return bytes <= total_bytes_ - offset ? base_ + offset : nullptr;
}

}  // namespace ringpress::ring::transport::shm
