#include "nccl_plugin/plugin/told_tensors.h"

#include <algorithm>
#include <atomic>

namespace ringpress::nccl_plugin::plugin {
namespace {

std::uintptr_t number_of(const void* place) {
  return reinterpret_cast<std::uintptr_t>(place);
}

std::uintptr_t distance(std::uintptr_t a, std::uintptr_t b) {
  return a < b ? b - a : a - b;
}

std::atomic<bool> has_lost{false};

}  // namespace

std::size_t ToldTensors::Told::group_channels(std::size_t group) const {
  return std::min(kGroupChannels, channel_count - group * kGroupChannels);
}

std::size_t ToldTensors::Told::steps_with(std::size_t total) const {
  const std::size_t loop = total * chunk_bytes;
  return (event.count * event.element_bytes + loop - 1) / loop;
}

/// Of a whole tensor: true if the channels are the first ones, without a gap, and the steps just
/// cover the tensor.
bool ToldTensors::Told::is_complete(TensorPart part) const {
  const std::size_t element = event.element_bytes;
  if (!adds_up || steps == 0 || chunk_bytes == 0 || element == 0 || chunk_bytes % element != 0) {
    return false;
  }
  if (part != TensorPart::kWhole) return true;
  const std::uint64_t wanted =
      channel_count == kMostChannels ? ~std::uint64_t{0} : (std::uint64_t{1} << channel_count) - 1;
  return channels == wanted && steps == steps_with(channel_count);
}

std::size_t ToldTensors::Told::piece_count_of(std::size_t piece, TensorPart part) const {
  const std::size_t group = piece % group_count();
  const std::size_t step = piece / group_count();
  const std::size_t chunk = chunk_bytes / event.element_bytes;
  const std::size_t full = group_channels(group) * chunk;
  if (part != TensorPart::kWhole) return full;
  const std::size_t begin = (step * channel_count + group * kGroupChannels) * chunk;
  return std::min(full, event.count - std::min(begin, event.count));
}

std::size_t ToldTensors::Told::lane_count(std::size_t lane, const Slice& slice) const {
  std::size_t count = 0;
  for (std::size_t piece = lane; piece < piece_count(); piece += slice.lanes) {
    count += piece_count_of(piece, slice.part);
  }
  return count;
}

void ToldTensors::refer(Place* place, Told* told) {
  if (place->told == told) return;
  leave(place);
  place->told = told;
  ++told->places;
}

void ToldTensors::leave(Place* place) {
  if (place->told == nullptr) return;
  if (--place->told->places == 0 && place->told != current_) free_.push_back(place->told);
  place->told = nullptr;
}

void ToldTensors::forget(const void* place) {
  const auto found = places_.find(number_of(place));
  if (found != places_.end()) leave(&found->second);
}

/// One that is not known, or whose turn was before another's, does not add up.
ToldTensors::Told* ToldTensors::begin_tensor(TensorBook* book, std::uint64_t tensor) {
  if (current_ != nullptr && current_book_ == book->number() && current_tensor_ == tensor) {
    return current_;
  }
  if (free_.empty()) {
    free_.reserve(told_.size() + 2);  // The current one has a place there, too.
    told_.push_back(std::make_unique<Told>());
    free_.push_back(told_.back().get());
  }
  Told* const told = free_.back();
  free_.pop_back();
  if (current_ != nullptr && current_->places == 0) free_.push_back(current_);
  *told = Told{};
  current_ = told;
  current_book_ = book->number();
  current_tensor_ = tensor;
  const auto begun = book->begin(tensor);
  told->adds_up = begun.has_value();
  told->is_of_first = book->told() == ToldChannels::kFirst;
  if (begun) {
    told->event = begun->event;
    told->is_recurring = begun->is_recurring;
  }
  return told;
}

void ToldTensors::add_channel(TensorBook* book, const ChannelEvent& event) {
  Place& place = places_[number_of(event.place)];
  Told* const told = begin_tensor(book, event.tensor);
  // Where another event of it has the same place, or pieces have come before it.
  if (place.told == told || told->taken > 0) told->adds_up = false;
  refer(&place, told);
  place.channel = add_to(told, event);
}

/// Which of the tensor's channels it is.
std::size_t ToldTensors::add_to(Told* told, const ChannelEvent& event) {
  if (event.channel >= kMostChannels) {
    told->adds_up = false;
    return kOtherDirection;
  }
  if (told->channel_count == 0) {
    told->steps = event.steps;
    told->chunk_bytes = event.chunk_bytes;
  }
  told->adds_up =
      told->adds_up && told->steps == event.steps && told->chunk_bytes == event.chunk_bytes;
  const std::uint64_t bit = std::uint64_t{1} << event.channel;
  if ((told->channels & bit) != 0) return kOtherDirection;
  told->channels |= bit;
  told->adds_up = is_beside_last(told, number_of(event.place)) && told->adds_up;
  return told->channel_count++;
}

/// The channels of one operation stand beside each other; those of several network devices are
/// operations of their own.
bool ToldTensors::is_beside_last(Told* told, std::uintptr_t place) {
  const std::uintptr_t stride = place - told->last_place;
  told->last_place = place;
  if (told->channel_count == 0) return true;
  if (told->channel_count == 1) told->stride = stride;
  return stride == told->stride && stride > kSameChannelBytes && stride < kSameOperationBytes;
}

ToldTensors::Found ToldTensors::nearest(std::uintptr_t request) const {
  Found found;
  std::uintptr_t least = kSameChannelBytes;
  auto at = places_.lower_bound(request);
  if (at != places_.begin()) --at;
  for (int looked_at = 0; at != places_.end() && looked_at < 2; ++at, ++looked_at) {
    const std::uintptr_t away = distance(at->first, request);
    if (away >= least) continue;
    least = away;
    found = {at->second.told, at->second.channel, static_cast<std::intptr_t>(request - at->first)};
  }
  return found;
}

/// A piece that comes with a channel that is not told. NCCL uses no operation's struct anew without
/// telling of its first channel, so the next place before it is of the same operation.
ToldTensors::Found ToldTensors::behind_first(std::uintptr_t request) const {
  auto at = places_.upper_bound(request);
  if (at == places_.begin()) return {};
  --at;
  const bool is_near = request - at->first < kMostChannels * kSameOperationBytes;
  const bool is_of_first = at->second.told != nullptr && at->second.told->is_of_first;
  if (!is_near || !is_of_first) return {};
  return {at->second.told, at->second.channel, static_cast<std::intptr_t>(request - at->first)};
}

std::optional<TensorPiece> ToldTensors::take_piece(const Slice& slice) {
  Found found = nearest(number_of(slice.place));
  if (found.told == nullptr) found = behind_first(number_of(slice.place));
  if (found.told == nullptr) return std::nullopt;
  auto piece = next_piece(found, slice);
  if (!piece.has_value()) found.told->adds_up = false;
  return piece;
}

/// From the first piece, where only the first channel is told. False if it is not certain.
bool ToldTensors::find_channels(Told* told, const Slice& slice) {
  if (!told->adds_up || told->channel_count != 1) return false;
  if (told->chunk_bytes == 0 || slice.bytes % told->chunk_bytes != 0) return false;
  const std::size_t seen = slice.bytes / told->chunk_bytes;
  if (seen == 0 || seen > kGroupChannels) return false;
  const std::size_t most = seen < kGroupChannels ? seen : kMostChannels;
  std::size_t fits = 0;
  for (std::size_t channels = seen; channels <= most; ++channels) {
    const bool is_whole = slice.part == TensorPart::kWhole;
    if (is_whole && told->steps != told->steps_with(channels)) continue;
    if (fits != 0) return false;
    fits = channels;
  }
  if (fits == 0) return false;
  told->channel_count = fits;
  // Those behind it. Which ones they are matters where they are all: then it is channel 0.
  if (told->channels == 1 && fits == kMostChannels) told->channels = ~std::uint64_t{0};
  if (told->channels == 1) told->channels = (std::uint64_t{1} << fits) - 1;
  return true;
}

/// Whether a piece of that group comes with the channel that it should.
bool ToldTensors::comes_with(const Found& found, std::size_t channel, std::size_t group) {
  if (!found.told->is_of_first) return found.channel == channel;
  if (found.channel != 0) return false;
  const auto near = static_cast<std::intptr_t>(kSameChannelBytes);
  const auto index = static_cast<std::intptr_t>(channel);
  const auto far = static_cast<std::intptr_t>(kSameOperationBytes);
  if (found.away < (index - 1) * near || found.away > index * far + near) return false;
  if (found.told->taken == 0) found.told->first_piece = found.away;
  const std::intptr_t behind_first_piece = found.away - found.told->first_piece;
  // The requests of one channel are beside each other.
  if (group == 0) return behind_first_piece > -near && behind_first_piece < near;
  return behind_first_piece >= near;
}

std::optional<TensorPiece> ToldTensors::next_piece(const Found& found, const Slice& slice) {
  Told* const told = found.told;
  if (told->is_of_first && told->taken == 0 && !find_channels(told, slice)) return std::nullopt;
  if (!told->is_complete(slice.part) || told->taken >= told->piece_count()) return std::nullopt;
  const std::size_t group = told->taken % told->group_count();
  const std::size_t channels = told->group_channels(group);
  if (slice.bytes != channels * told->chunk_bytes) return std::nullopt;
  if (!comes_with(found, group * kGroupChannels + channels - 1, group)) return std::nullopt;
  TensorPiece piece;
  piece.tensor = told->event;
  piece.index = told->taken;
  piece.is_recurring = told->is_recurring;
  piece.count = told->piece_count_of(piece.index, slice.part);
  piece.layout = told->chunk_bytes * (kMostChannels + 1) + told->channel_count;
  // Only the first piece of each lane needs it.
  if (piece.index < slice.lanes) piece.lane_count = told->lane_count(piece.index, slice);
  ++told->taken;
  return piece;
}

ToldTensors& told_tensors_of_this_thread() {
  thread_local ToldTensors tensors;
  return tensors;
}

void note_lost_events() {
  has_lost.store(true);
}

bool has_lost_events() {
  return has_lost.load();
}

}  // namespace ringpress::nccl_plugin::plugin
