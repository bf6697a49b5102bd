#include "nccl_plugin/session/calls/buffer_names.h"

namespace ringpress::nccl_plugin {
namespace {

// No program has addresses with these bits: they tell the processes apart, up to their number.
constexpr unsigned kProcessShift = 57;
constexpr std::uint64_t kProcessTags = 127;

std::uint64_t number_of(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

/// Of the first process it is 0.
std::uint64_t tag_of(std::uint64_t processes) {
  return processes == 0 ? 0 : (processes - 1) % kProcessTags + 1;
}

}  // namespace

const void* BufferNames::name_of(const void* address) const {
  if (processes_ == 0 || address == nullptr) return address;
  const auto found = names_.find(number_of(address));
  const std::uint64_t name = found != names_.end()
                                 ? found->second
                                 : number_of(address) | tag_of(processes_) << kProcessShift;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): it is only compared.
  return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(name));
}

bool BufferNames::is_of_this_process(std::uint64_t name) const {
  return name >> kProcessShift == tag_of(processes_);
}

void BufferNames::learn(const void* address, const void* name) {
  if (processes_ == 0 || address == nullptr || name == nullptr) return;
  if (is_of_this_process(number_of(name)) || names_.count(number_of(address)) != 0) return;
  if (!taken_.insert(number_of(name)).second) return;
  names_.emplace(number_of(address), number_of(name));
}

void BufferNames::save(StateWriter& to) const {
  to.put(processes_);
  to.put<std::uint64_t>(names_.size());
  for (const auto& [address, name] : names_) {
    to.put(address);
    to.put(name);
  }
}

void BufferNames::load(StateReader& from, StateFrom whose) {
  *this = BufferNames();
  processes_ = from.get<std::uint64_t>();
  const std::size_t count = from.get_count(2 * sizeof(std::uint64_t));
  for (std::size_t i = 0; i < count; ++i) {
    const auto address = from.get<std::uint64_t>();
    const auto name = from.get<std::uint64_t>();
    names_.emplace(address, name);
    taken_.insert(name);
  }
  if (whose == StateFrom::kThisProcess) return;
  ++processes_;
  names_.clear();
  taken_.clear();
}

}  // namespace ringpress::nccl_plugin
