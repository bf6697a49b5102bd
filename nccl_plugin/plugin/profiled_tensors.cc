#include "nccl_plugin/plugin/profiled_tensors.h"

#include <algorithm>
#include <atomic>

namespace ringpress::nccl_plugin::plugin {
namespace {

std::uintptr_t number_of(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

std::uintptr_t distance(std::uintptr_t a, std::uintptr_t b) {
  return a < b ? b - a : a - b;
}

std::atomic<bool> has_lost{false};

}  // namespace

std::size_t ProfiledTensors::Profiled::group_channels(std::size_t group) const {
  return std::min(kGroupChannels, channel_count - group * kGroupChannels);
}

std::size_t ProfiledTensors::Profiled::steps_with(std::size_t total) const {
  const std::size_t loop = total * chunk_bytes;
  return (event.count * event.element_bytes + loop - 1) / loop;
}

/// Of a whole tensor: true if the channels are the first ones, without a gap, and the steps just
/// cover the tensor.
bool ProfiledTensors::Profiled::is_complete(TensorPart part) const {
  const std::size_t element = event.element_bytes;
  if (!adds_up || steps == 0 || chunk_bytes == 0 || element == 0 || chunk_bytes % element != 0) {
    return false;
  }
  if (part != TensorPart::kWhole) return true;
  const std::uint64_t wanted =
      channel_count == kMostChannels ? ~std::uint64_t{0} : (std::uint64_t{1} << channel_count) - 1;
  return channels == wanted && steps == steps_with(channel_count);
}

std::size_t ProfiledTensors::Profiled::piece_count_of(std::size_t piece, TensorPart part) const {
  const std::size_t group = piece % group_count();
  const std::size_t step = piece / group_count();
  const std::size_t chunk = chunk_bytes / event.element_bytes;
  const std::size_t full = group_channels(group) * chunk;
  if (part != TensorPart::kWhole) return full;
  const std::size_t begin = (step * channel_count + group * kGroupChannels) * chunk;
  return std::min(full, event.count - std::min(begin, event.count));
}

std::size_t ProfiledTensors::Profiled::worker_count(std::size_t worker, const Slice& slice) const {
  std::size_t count = 0;
  for (std::size_t piece = worker; piece < piece_count(); piece += slice.workers) {
    count += piece_count_of(piece, slice.part);
  }
  return count;
}

void ProfiledTensors::refer(ChannelRecord* record, Profiled* profiled) {
  if (record->profiled == profiled) return;
  leave(record);
  record->profiled = profiled;
  ++profiled->references;
}

void ProfiledTensors::leave(ChannelRecord* record) {
  if (record->profiled == nullptr) return;
  if (--record->profiled->references == 0 && record->profiled != current_)
    free_.push_back(record->profiled);
  record->profiled = nullptr;
}

void ProfiledTensors::forget(const void* address) {
  const auto found = records_.find(number_of(address));
  if (found != records_.end()) leave(&found->second);
}

/// One that is not known, or whose turn was before another's, does not add up.
ProfiledTensors::Profiled* ProfiledTensors::begin_tensor(TensorRegistry* registry,
                                                         std::uint64_t tensor) {
  if (current_ != nullptr && current_registry_ == registry->number() && current_tensor_ == tensor) {
    return current_;
  }
  if (free_.empty()) {
    free_.reserve(profiled_.size() + 2);  // The current one has a address there, too.
    profiled_.push_back(std::make_unique<Profiled>());
    free_.push_back(profiled_.back().get());
  }
  Profiled* const profiled = free_.back();
  free_.pop_back();
  if (current_ != nullptr && current_->references == 0) free_.push_back(current_);
  *profiled = Profiled{};
  current_ = profiled;
  current_registry_ = registry->number();
  current_tensor_ = tensor;
  const auto begun = registry->begin(tensor);
  profiled->adds_up = begun.has_value();
  profiled->is_of_first = registry->profiled() == ProfiledChannels::kFirst;
  if (begun) {
    profiled->event = begun->event;
    profiled->is_recurring = begun->is_recurring;
  }
  return profiled;
}

void ProfiledTensors::add_channel(TensorRegistry* registry, const ChannelEvent& event) {
  ChannelRecord& record = records_[number_of(event.address)];
  Profiled* const profiled = begin_tensor(registry, event.tensor);
  // Where another event of it has the same address, or pieces have come before it.
  if (record.profiled == profiled || profiled->taken > 0) profiled->adds_up = false;
  refer(&record, profiled);
  record.channel = add_to(profiled, event);
}

/// Which of the tensor's channels it is.
std::size_t ProfiledTensors::add_to(Profiled* profiled, const ChannelEvent& event) {
  if (event.channel >= kMostChannels) {
    profiled->adds_up = false;
    return kOtherDirection;
  }
  if (profiled->channel_count == 0) {
    profiled->steps = event.steps;
    profiled->chunk_bytes = event.chunk_bytes;
  }
  profiled->adds_up = profiled->adds_up && profiled->steps == event.steps &&
                      profiled->chunk_bytes == event.chunk_bytes;
  const std::uint64_t bit = std::uint64_t{1} << event.channel;
  if ((profiled->channels & bit) != 0) return kOtherDirection;
  profiled->channels |= bit;
  profiled->adds_up = is_beside_last(profiled, number_of(event.address)) && profiled->adds_up;
  return profiled->channel_count++;
}

/// The channels of one operation stand beside each other; those of several network devices are
/// operations of their own.
bool ProfiledTensors::is_beside_last(Profiled* profiled, std::uintptr_t address) {
  const std::uintptr_t stride = address - profiled->last_address;
  profiled->last_address = address;
  if (profiled->channel_count == 0) return true;
  if (profiled->channel_count == 1) profiled->stride = stride;
  return stride == profiled->stride && stride > kSameChannelBytes && stride < kSameOperationBytes;
}

ProfiledTensors::Found ProfiledTensors::nearest(std::uintptr_t request) const {
  Found found;
  std::uintptr_t least = kSameChannelBytes;
  auto at = records_.lower_bound(request);
  if (at != records_.begin()) --at;
  for (int looked_at = 0; at != records_.end() && looked_at < 2; ++at, ++looked_at) {
    const std::uintptr_t away = distance(at->first, request);
    if (away >= least) continue;
    least = away;
    found = {at->second.profiled, at->second.channel,
             static_cast<std::intptr_t>(request - at->first)};
  }
  return found;
}

/// A piece that comes with a channel that is not profiled. NCCL uses no operation's struct anew
/// without telling of its first channel, so the next address before it is of the same operation.
ProfiledTensors::Found ProfiledTensors::behind_first(std::uintptr_t request) const {
  auto at = records_.upper_bound(request);
  if (at == records_.begin()) return {};
  --at;
  const bool is_near = request - at->first < kMostChannels * kSameOperationBytes;
  const bool is_of_first = at->second.profiled != nullptr && at->second.profiled->is_of_first;
  if (!is_near || !is_of_first) return {};
  return {at->second.profiled, at->second.channel, static_cast<std::intptr_t>(request - at->first)};
}

std::optional<TensorPiece> ProfiledTensors::take_piece(const Slice& slice) {
  Found found = nearest(number_of(slice.address));
  if (found.profiled == nullptr) found = behind_first(number_of(slice.address));
  if (found.profiled == nullptr) return std::nullopt;
  auto piece = next_piece(found, slice);
  if (!piece.has_value()) found.profiled->adds_up = false;
  return piece;
}

/// From the first piece, where only the first channel is profiled. False if it is not certain.
bool ProfiledTensors::find_channels(Profiled* profiled, const Slice& slice) {
  if (!profiled->adds_up || profiled->channel_count != 1) return false;
  if (profiled->chunk_bytes == 0 || slice.bytes % profiled->chunk_bytes != 0) return false;
  const std::size_t seen = slice.bytes / profiled->chunk_bytes;
  if (seen == 0 || seen > kGroupChannels) return false;
  const std::size_t most = seen < kGroupChannels ? seen : kMostChannels;
  std::size_t fits = 0;
  for (std::size_t channels = seen; channels <= most; ++channels) {
    const bool is_whole = slice.part == TensorPart::kWhole;
    if (is_whole && profiled->steps != profiled->steps_with(channels)) continue;
    if (fits != 0) return false;
    fits = channels;
  }
  if (fits == 0) return false;
  profiled->channel_count = fits;
  // Those behind it. Which ones they are matters where they are all: then it is channel 0.
  if (profiled->channels == 1 && fits == kMostChannels) profiled->channels = ~std::uint64_t{0};
  if (profiled->channels == 1) profiled->channels = (std::uint64_t{1} << fits) - 1;
  return true;
}

/// Whether a piece of that group comes with the channel that it should.
bool ProfiledTensors::comes_with(const Found& found, std::size_t channel, std::size_t group) {
  if (!found.profiled->is_of_first) return found.channel == channel;
  if (found.channel != 0) return false;
  const auto near = static_cast<std::intptr_t>(kSameChannelBytes);
  const auto index = static_cast<std::intptr_t>(channel);
  const auto far = static_cast<std::intptr_t>(kSameOperationBytes);
  if (found.away < (index - 1) * near || found.away > index * far + near) return false;
  if (found.profiled->taken == 0) found.profiled->first_piece = found.away;
  const std::intptr_t behind_first_piece = found.away - found.profiled->first_piece;
  // The requests of one channel are beside each other.
  if (group == 0) return behind_first_piece > -near && behind_first_piece < near;
  return behind_first_piece >= near;
}

std::optional<TensorPiece> ProfiledTensors::next_piece(const Found& found, const Slice& slice) {
  Profiled* const profiled = found.profiled;
  if (profiled->is_of_first && profiled->taken == 0 && !find_channels(profiled, slice))
    return std::nullopt;
  if (!profiled->is_complete(slice.part) || profiled->taken >= profiled->piece_count())
    return std::nullopt;
  const std::size_t group = profiled->taken % profiled->group_count();
  const std::size_t channels = profiled->group_channels(group);
  if (slice.bytes != channels * profiled->chunk_bytes) return std::nullopt;
  if (!comes_with(found, group * kGroupChannels + channels - 1, group)) return std::nullopt;
  TensorPiece piece;
  piece.tensor = profiled->event;
  piece.index = profiled->taken;
  piece.is_recurring = profiled->is_recurring;
  piece.count = profiled->piece_count_of(piece.index, slice.part);
  piece.layout = profiled->chunk_bytes * (kMostChannels + 1) + profiled->channel_count;
  // Only the first piece of each worker needs it.
  if (piece.index < slice.workers) piece.worker_count = profiled->worker_count(piece.index, slice);
  ++profiled->taken;
  return piece;
}

ProfiledTensors& profiled_tensors_of_this_thread() {
  thread_local ProfiledTensors tensors;
  return tensors;
}

void note_lost_events() {
  has_lost.store(true);
}

bool has_lost_events() {
  return has_lost.load();
}

}  // namespace ringpress::nccl_plugin::plugin
