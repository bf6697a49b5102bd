#include "nccl_plugin/plugin/tensor_book.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace ringpress::nccl_plugin::plugin {
namespace {

std::atomic<std::uint64_t> last_number{0};

}  // namespace

TensorBook::TensorBook(int nodes, int ranks, ToldChannels told)
    : nodes_(nodes), ranks_(ranks), told_(told), number_(last_number.fetch_add(1) + 1) {}

std::uint64_t TensorBook::start_tensor(const TensorEvent& event) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t id = last_id_ + 1;
  make_room_for(id);
  events_[id % events_.size()] = {id, event};
  last_id_ = id;
  return id;
}

/// Grows rather than forget a tensor whose channels are still to come.
void TensorBook::make_room_for(std::uint64_t id) {
  const std::size_t most = last_begun_ == 0 ? kMostWithoutChannels : kMostRemembered;
  if (id - last_begun_ <= events_.size() || events_.size() >= most) return;
  std::vector<Entry> larger(2 * events_.size());
  for (const Entry& entry : events_) larger[entry.id % larger.size()] = entry;
  events_ = std::move(larger);
}

std::optional<TensorBook::Begun> TensorBook::begin(std::uint64_t tensor) {
  const std::lock_guard lock(mutex_);
  Entry& entry = events_[tensor % events_.size()];
  if (tensor == 0 || entry.id != tensor || entry.has_begun) return std::nullopt;
  entry.has_begun = true;
  last_begun_ = std::max(last_begun_, tensor);
  const Begun begun{entry.event, last_sequence_ != entry.event.sequence};
  last_sequence_ = entry.event.sequence;
  return begun;
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

/// The least of what the books of so many nodes tell, of all communicators or of one.
std::optional<TensorPart> least_part(std::optional<std::uint64_t> comm_id, int nodes) {
  std::optional<TensorPart> least;
  for (const auto& [id, book] : books().open) {
    if (book->nodes() != nodes || (comm_id && *comm_id != id)) continue;
    least = std::min(least.value_or(book->part()), book->part());
  }
  return least;
}

}  // namespace

std::shared_ptr<TensorBook> open_tensor_book(std::uint64_t comm_id, int nodes, int ranks,
                                             ToldChannels told) {
  auto book = std::make_shared<TensorBook>(nodes, ranks, told);
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
  std::optional<TensorPart> told;
  if (comm_id) told = least_part(comm_id, nodes);
  if (!told) told = least_part(std::nullopt, nodes);
  return told.value_or(TensorPart::kNothing);
}

}  // namespace ringpress::nccl_plugin::plugin
