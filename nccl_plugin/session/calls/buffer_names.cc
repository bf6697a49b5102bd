#include "nccl_plugin/session/calls/buffer_names.h"

namespace ringpress::nccl_plugin {
namespace {

// No program has addresses with these bits: they tell the processes apart, up to their number.
constexpr unsigned kProcessShift = 57;
constexpr std::uint64_t kProcessTags = 127;

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

bool BufferNames::wants_name(const void* address) const {
  return processes_ != 0 && address != nullptr && names_.count(number_of(address)) == 0;
}

/// A name of another process that no buffer of this one has.
bool BufferNames::is_free(const void* name) const {
  return name != nullptr && number_of(name) >> kProcessShift != tag_of(processes_) &&
         taken_.count(number_of(name)) == 0;
}

void BufferNames::learn(const void* address, const void* name) {
  if (!wants_name(address) || !is_free(name)) return;
  taken_.insert(number_of(name));
  names_.emplace(number_of(address), number_of(name));
}

void BufferNames::guess(const TensorCall& call, const std::optional<TensorCall>& before,
                        const std::vector<std::span<const TensorCall>>& seen) {
  if (!wants_name(call.address) || guesses_ == kMostGuesses) return;
  ++guesses_;
  const void* begins = nullptr;  // A run of calls on buffers that have not come again.
  for (const std::span<const TensorCall> calls : seen) {
    const bool is_history = calls.data() == seen.front().data();
    for (std::size_t i = calls.size(); i-- > 0;) {
      if (!has_shape_of(calls[i], call) || !is_free(calls[i].address)) continue;
      const bool has_none_before = i == 0 && is_history;
      const TensorCall& last = calls[i == 0 ? calls.size() - 1 : i - 1];
      if (before && !has_none_before && last == *before) {
        return learn(call.address, calls[i].address);
      }
      const bool is_first = is_history && (has_none_before || !is_free(last.address));
      if (begins == nullptr && is_first) begins = calls[i].address;
    }
  }
  learn(call.address, begins);
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
