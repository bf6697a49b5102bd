#include "nccl_plugin/plugin/tensor_book.h"

#include <algorithm>
#include <map>

namespace ringpress::nccl_plugin::plugin {
namespace {

std::atomic<std::uint64_t> last_turn{0};  // Of all books.
std::atomic<std::uint64_t> last_thread{0};

/// From 1 on. The system gives a thread's own number to a new one once it has ended, which may then
/// be taken for that of another communicator's tensors.
std::uint64_t number_of_this_thread() {
  thread_local const std::uint64_t number = last_thread.fetch_add(1) + 1;
  return number;
}

}  // namespace

bool TensorBook::is_of_this_thread() const {
  return thread_.load() == number_of_this_thread();
}

std::size_t TensorBook::Running::group_channels(std::size_t group) const {
  return std::min(kGroupChannels, channel_count - group * kGroupChannels);
}

/// Of a whole tensor: true if the channels are the first ones, without a gap, and the steps just
/// cover the tensor.
bool TensorBook::Running::adds_up(TensorPart part) const {
  const std::size_t element = entry.event.element_bytes;
  if (!is_even || steps == 0 || chunk_bytes == 0 || element == 0 || chunk_bytes % element != 0) {
    return false;
  }
  if (part != TensorPart::kWhole) return true;
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
  make_room_for(id);
  events_[id % events_.size()] = {id, event};
  return id;
}

void TensorBook::lose() {
  const std::lock_guard lock(mutex_);
  forget_all();
}

bool TensorBook::is_lost() const {
  const std::lock_guard lock(mutex_);
  return is_lost_;
}

void TensorBook::forget_all() {
  is_lost_ = true;
  running_count_ = 0;
}

/// Grows rather than forget a tensor whose channels are still to come.
void TensorBook::make_room_for(std::uint64_t id) {
  const std::size_t most = last_with_channels_ == 0 ? kMostWithoutChannels : kMostRemembered;
  if (id - last_with_channels_ <= events_.size() || events_.size() >= most) return;
  std::vector<Entry> larger(2 * events_.size());
  for (const Entry& entry : events_) larger[entry.id % larger.size()] = entry;
  events_ = std::move(larger);
}

void TensorBook::add_channel(const ChannelEvent& event) {
  thread_.store(number_of_this_thread());
  const std::lock_guard lock(mutex_);
  if (is_lost_ || is_disturbed_) return;
  last_with_channels_ = std::max(last_with_channels_, event.tensor);
  Running* const running = event.channel < kMostChannels ? running_of(event) : nullptr;
  if (running == nullptr) {
    // When the pieces have come so far: that is the same piece on every rank.
    is_disturbed_ = true;
    Running* const last = append_running();
    last->is_even = false;
    last->turn = last_turn.fetch_add(1) + 1;
    return;
  }
  running->is_even = running->is_even && running->steps == event.steps &&
                     running->chunk_bytes == event.chunk_bytes;
  const std::uint64_t bit = std::uint64_t{1} << event.channel;
  if ((running->channels & bit) == 0)
    ++running->channel_count;  // Else the channel's other direction.
  running->channels |= bit;
}

/// The last one, or a new one. Null for a tensor that is not known or whose turn was before.
TensorBook::Running* TensorBook::running_of(const ChannelEvent& event) {
  if (running_count_ > 0) {
    Running& last = running_at(running_count_ - 1);
    if (last.entry.id == event.tensor) return last.taken == 0 ? &last : nullptr;
  }
  Entry& entry = events_[event.tensor % events_.size()];
  const bool is_known = event.tensor != 0 && entry.id == event.tensor;
  if (!is_known || entry.has_channels || running_count_ == kMostRunning) return nullptr;
  entry.has_channels = true;
  Running* const added = append_running();
  added->entry = entry;
  added->steps = event.steps;
  added->chunk_bytes = event.chunk_bytes;
  added->turn = last_turn.fetch_add(1) + 1;
  return added;
}

std::size_t TensorBook::Running::piece_count_of(std::size_t piece, TensorPart part) const {
  const std::size_t group = piece % group_count();
  const std::size_t step = piece / group_count();
  const std::size_t chunk = chunk_bytes / entry.event.element_bytes;
  const std::size_t full = group_channels(group) * chunk;
  if (part != TensorPart::kWhole) return full;
  const std::size_t begin = (step * channel_count + group * kGroupChannels) * chunk;
  return std::min(full, entry.event.count - std::min(begin, entry.event.count));
}

std::size_t TensorBook::Running::lane_count(std::size_t lane, const Slice& slice) const {
  std::size_t count = 0;
  for (std::size_t piece = lane; piece < piece_count(); piece += slice.lanes) {
    count += piece_count_of(piece, slice.part);
  }
  return count;
}

std::optional<std::uint64_t> TensorBook::next_turn() const {
  const std::lock_guard lock(mutex_);
  if (running_count_ == 0) return std::nullopt;
  return running_[running_begin_].turn;
}

std::optional<TensorPiece> TensorBook::take_piece(const Slice& slice) {
  const std::lock_guard lock(mutex_);
  std::optional<TensorPiece> piece;
  if (running_count_ > 0) piece = next_piece(&running_at(0), slice);
  if (!piece.has_value()) {
    forget_all();
  } else if (running_at(0).taken == running_at(0).piece_count()) {
    running_begin_ = (running_begin_ + 1) % running_.size();
    --running_count_;
  }
  return piece;
}

std::optional<TensorPiece> TensorBook::next_piece(Running* running, const Slice& slice) {
  if (!running->adds_up(slice.part)) return std::nullopt;
  const std::size_t group = running->taken % running->group_count();
  if (slice.bytes != running->group_channels(group) * running->chunk_bytes) return std::nullopt;
  TensorPiece piece;
  piece.tensor = running->entry.event;
  piece.index = running->taken;
  piece.count = running->piece_count_of(piece.index, slice.part);
  piece.layout = running->chunk_bytes * (kMostChannels + 1) + running->channel_count;
  // Only the first piece of each lane needs it.
  if (piece.index < slice.lanes) piece.lane_count = running->lane_count(piece.index, slice);
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
  std::map<int, int> askers;  // CollNet communicators, by their nodes.
};

Books& books() {
  static Books* const instance = new Books;  // Lives until the process ends.
  return *instance;
}

}  // namespace

std::shared_ptr<TensorBook> open_tensor_book(std::uint64_t comm_id, int nodes, int ranks) {
  auto book = std::make_shared<TensorBook>(nodes, ranks);
  const std::lock_guard lock(books().mutex);
  books().open.emplace_back(comm_id, book);
  return book;
}

void close_tensor_book(const std::shared_ptr<TensorBook>& book) {
  const std::lock_guard lock(books().mutex);
  std::erase_if(books().open, [&](const auto& open) { return open.second == book; });
}

TensorPart told_part(std::optional<std::uint64_t> comm_id, int nodes) {
  const std::lock_guard lock(books().mutex);
  const auto& open = books().open;
  if (open.empty()) return TensorPart::kNothing;
  const std::uint64_t id = comm_id.value_or(open.front().first);
  std::optional<TensorPart> told;
  for (const auto& [book_id, book] : open) {
    if (book_id != id && !comm_id) return TensorPart::kNothing;
    if (book_id != id || book->nodes() != nodes) continue;
    told = std::min(told.value_or(book->part()), book->part());
  }
  return told.value_or(TensorPart::kNothing);
}

void come_for_pieces(int nodes) {
  const std::lock_guard lock(books().mutex);
  ++books().askers[nodes];
}

void leave_pieces(int nodes) {
  const std::lock_guard lock(books().mutex);
  if (--books().askers[nodes] == 0) books().askers.erase(nodes);
}

std::optional<TensorPiece> take_piece_of_this_thread(int nodes, const TensorBook::Slice& slice) {
  const std::lock_guard lock(books().mutex);
  const auto serves = [nodes](const TensorBook& book) {
    return book.nodes() == nodes && book.is_of_this_thread();
  };
  TensorBook* next = nullptr;
  std::optional<std::uint64_t> first_turn;
  bool is_lost = false;
  int waiting = 0;  // Books with tensors.
  for (const auto& [id, book] : books().open) {
    if (!serves(*book)) continue;
    is_lost = is_lost || book->is_lost();
    const std::optional<std::uint64_t> turn = book->next_turn();
    if (turn) ++waiting;
    if (!turn || (first_turn && *first_turn < *turn)) continue;
    next = book.get();
    first_turn = turn;
  }
  // Two that ask: the piece could be of either's tensor.
  const auto askers = books().askers.find(nodes);
  if (waiting > 1 && askers != books().askers.end() && askers->second > 1) is_lost = true;
  std::optional<TensorPiece> piece;
  if (next != nullptr && !is_lost) piece = next->take_piece(slice);
  if (piece.has_value()) return piece;
  for (const auto& [id, book] : books().open) {
    if (serves(*book)) book->lose();
  }
  return std::nullopt;
}

}  // namespace ringpress::nccl_plugin::plugin
