#include "nccl_plugin/plugin/tensor_book.h"

#include <algorithm>
#include <tuple>

namespace ringpress::nccl_plugin::plugin {

std::size_t TensorBook::Running::group_channels(std::size_t group) const {
  return std::min(kGroupChannels, channel_count - group * kGroupChannels);
}

/// True if the channels are the first ones, without a gap, and the steps just cover the tensor:
/// then no other process has channels of it in between.
bool TensorBook::Running::adds_up() const {
  const std::size_t element = entry.event.element_bytes;
  if (!is_even || steps == 0 || chunk_bytes == 0 || element == 0 || chunk_bytes % element != 0) {
    return false;
  }
  const std::uint64_t wanted =
      channel_count == kMostChannels ? ~std::uint64_t{0} : (std::uint64_t{1} << channel_count) - 1;
  if (channels != wanted) return false;
  const std::size_t loop = channel_count * chunk_bytes;
  const std::size_t bytes = entry.event.count * element;
  return steps == (bytes + loop - 1) / loop;
}

TensorBook::Running& TensorBook::running_at(std::size_t index) {
  return running_[(running_begin_ + index) % running_.size()];
}

TensorBook::Running* TensorBook::append_running() {
  if (running_count_ == running_.size()) {
    std::rotate(running_.begin(), running_.begin() + static_cast<std::ptrdiff_t>(running_begin_),
                running_.end());
    running_begin_ = 0;
    running_.resize(2 * running_.size());
  }
  Running& added = running_at(running_count_++);
  added = Running{};
  return &added;
}

std::uint64_t TensorBook::start_tensor(const TensorEvent& event) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t id = ++last_id_;
  events_[id % kRemembered] = {id, event};
  return id;
}

void TensorBook::add_channel(const ChannelEvent& event) {
  thread_.store(std::this_thread::get_id());
  const std::lock_guard lock(mutex_);
  const Entry& entry = events_[event.tensor % kRemembered];
  if (event.tensor == 0 || entry.id != event.tensor || !entry.event.is_chain) return;
  if (event.channel >= kMostChannels) return;
  if (running_count_ == 0 || running_at(running_count_ - 1).entry.id != event.tensor) {
    Running* const added = append_running();
    added->entry = entry;
    added->steps = event.steps;
    added->chunk_bytes = event.chunk_bytes;
  }
  Running& running = running_at(running_count_ - 1);
  running.is_even =
      running.is_even && running.steps == event.steps && running.chunk_bytes == event.chunk_bytes;
  const std::uint64_t bit = std::uint64_t{1} << event.channel;
  if ((running.channels & bit) == 0)
    ++running.channel_count;  // Else the channel's other direction.
  running.channels |= bit;
}

std::pair<std::size_t, std::size_t> TensorBook::Running::extent(std::size_t piece) const {
  const std::size_t group = piece % group_count();
  const std::size_t step = piece / group_count();
  const std::size_t chunk = chunk_bytes / entry.event.element_bytes;
  const std::size_t begin = (step * channel_count + group * kGroupChannels) * chunk;
  const std::size_t first = std::min(begin, entry.event.count);
  return {first, std::min(group_channels(group) * chunk, entry.event.count - first)};
}

std::size_t TensorBook::Running::lane_count(std::size_t lane, std::size_t lanes) const {
  std::size_t count = 0;
  for (std::size_t piece = lane; piece < piece_count(); piece += lanes) {
    count += extent(piece).second;
  }
  return count;
}

std::optional<TensorPiece> TensorBook::take_piece(std::size_t bytes, std::size_t lanes) {
  const std::lock_guard lock(mutex_);
  if (running_count_ == 0) return std::nullopt;
  Running& running = running_at(0);
  const std::optional<TensorPiece> piece = next_piece(&running, bytes, lanes);
  if (!piece.has_value() || running.taken == running.piece_count()) {
    running_begin_ = (running_begin_ + 1) % running_.size();
    --running_count_;
  }
  return piece;
}

std::optional<TensorPiece> TensorBook::next_piece(Running* running, std::size_t bytes,
                                                  std::size_t lanes) {
  if (!running->adds_up()) return std::nullopt;
  const std::size_t group = running->taken % running->group_count();
  if (bytes != running->group_channels(group) * running->chunk_bytes) return std::nullopt;
  TensorPiece piece;
  piece.tensor = running->entry.event;
  piece.index = running->taken;
  std::tie(piece.first, piece.count) = running->extent(piece.index);
  // Only the first piece of each lane needs it.
  if (piece.index < lanes) piece.lane_count = running->lane_count(piece.index, lanes);
  piece.is_recurring = !has_sequence_ || running->entry.event.sequence != last_sequence_;
  ++running->taken;
  if (running->taken == running->piece_count()) {
    last_sequence_ = piece.tensor.sequence;
    has_sequence_ = true;
  }
  return piece;
}

namespace {

struct Books {
  std::mutex mutex;
  std::vector<std::pair<std::uint64_t, std::shared_ptr<TensorBook>>> open;
};

Books& books() {
  static Books* const instance = new Books;  // Lives until the process ends.
  return *instance;
}

}  // namespace

std::shared_ptr<TensorBook> open_tensor_book(std::uint64_t comm_id) {
  auto book = std::make_shared<TensorBook>();
  const std::lock_guard lock(books().mutex);
  books().open.emplace_back(comm_id, book);
  return book;
}

void close_tensor_book(const std::shared_ptr<TensorBook>& book) {
  const std::lock_guard lock(books().mutex);
  std::erase_if(books().open, [&](const auto& open) { return open.second == book; });
}

bool has_tensor_book(std::optional<std::uint64_t> comm_id) {
  const std::lock_guard lock(books().mutex);
  return std::any_of(books().open.begin(), books().open.end(),
                     [&](const auto& open) { return !comm_id || open.first == *comm_id; });
}

std::shared_ptr<TensorBook> tensor_book_of_this_thread(std::optional<std::uint64_t> comm_id) {
  const std::lock_guard lock(books().mutex);
  std::shared_ptr<TensorBook> found;
  for (const auto& [id, book] : books().open) {
    if ((comm_id && id != *comm_id) || !book->is_of_this_thread()) continue;
    if (found != nullptr) return nullptr;
    found = book;
  }
  return found;
}

}  // namespace ringpress::nccl_plugin::plugin
