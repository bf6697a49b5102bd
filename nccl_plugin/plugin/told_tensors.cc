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
  if (channels != wanted) return false;
  const std::size_t loop = channel_count * chunk_bytes;
  const std::size_t bytes = event.count * element;
  return steps == (bytes + loop - 1) / loop;
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

const ToldTensors::Place* ToldTensors::nearest(std::uintptr_t request) const {
  const Place* found = nullptr;
  std::uintptr_t least = kSameChannelBytes;
  auto at = places_.lower_bound(request);
  if (at != places_.begin()) --at;
  for (int looked_at = 0; at != places_.end() && looked_at < 2; ++at, ++looked_at) {
    const std::uintptr_t away = distance(at->first, request);
    if (away >= least) continue;
    least = away;
    found = &at->second;
  }
  return found;
}

std::optional<TensorPiece> ToldTensors::take_piece(const Slice& slice) {
  const Place* const place = nearest(number_of(slice.place));
  if (place == nullptr || place->told == nullptr) return std::nullopt;
  auto piece = next_piece(place->told, place->channel, slice);
  if (!piece.has_value()) place->told->adds_up = false;
  return piece;
}

std::optional<TensorPiece> ToldTensors::next_piece(Told* told, std::size_t channel,
                                                   const Slice& slice) {
  if (!told->is_complete(slice.part) || told->taken >= told->piece_count()) return std::nullopt;
  const std::size_t group = told->taken % told->group_count();
  const std::size_t channels = told->group_channels(group);
  if (slice.bytes != channels * told->chunk_bytes) return std::nullopt;
  if (channel != group * kGroupChannels + channels - 1) return std::nullopt;
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
