// Which tensor a piece belongs to, against every piece of random tensors laid out by hand.
#include "nccl_plugin/plugin/tensor_book.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

namespace ringpress::nccl_plugin::plugin {
namespace {

struct Layout {
  TensorEvent event;
  std::size_t channels = 1;
  std::size_t chunk_bytes = 32768;

  std::size_t bytes() const { return event.count * event.element_bytes; }
  std::size_t steps() const {
    return (bytes() + channels * chunk_bytes - 1) / (channels * chunk_bytes);
  }
};

std::optional<TensorPiece> take_whole(TensorBook* book, std::size_t bytes, std::size_t lanes) {
  return book->take_piece({bytes, lanes, TensorPart::kWhole});
}

/// Both directions of each channel, in an order of its own.
void announce(TensorBook* book, const Layout& layout, std::mt19937* random) {
  const std::uint64_t id = book->start_tensor(layout.event);
  std::vector<unsigned> channels(layout.channels);
  std::iota(channels.begin(), channels.end(), 0U);
  for (int direction = 0; direction < 2; ++direction) {
    std::shuffle(channels.begin(), channels.end(), *random);
    for (const unsigned channel : channels) {
      book->add_channel({id, channel, layout.steps(), layout.chunk_bytes});
    }
  }
}

TEST(TensorBook, GivesEveryPieceOfEveryTensorItsPlace) {
  std::mt19937 random(1);
  TensorBook book(2, 2);
  std::uint64_t sequence = 0;
  for (int round = 0; round < 100; ++round) {
    std::vector<Layout> layouts(1 + random() % 5);
    for (Layout& layout : layouts) {
      layout.event = {&layout, 1 + random() % 3000000, random() % 2 == 0 ? 4U : 2U, sequence++};
      layout.channels = 1 + random() % 24;
      layout.chunk_bytes = std::size_t{32768} << random() % 4;
      announce(&book, layout, &random);
    }
    for (const Layout& layout : layouts) {
      const std::size_t chunk = layout.chunk_bytes / layout.event.element_bytes;
      std::size_t expected_first = 0;
      std::size_t index = 0;
      std::size_t lane_totals[2] = {0, 0};
      std::size_t lane_counts[2] = {0, 0};
      for (std::size_t step = 0; step < layout.steps(); ++step) {
        for (std::size_t begin = 0; begin < layout.channels; begin += 8) {
          const std::size_t channels = std::min<std::size_t>(8, layout.channels - begin);
          const auto piece = take_whole(&book, channels * layout.chunk_bytes, 2);
          ASSERT_TRUE(piece.has_value());
          EXPECT_EQ(piece->tensor.address, &layout);
          EXPECT_EQ(piece->index, index);
          EXPECT_TRUE(piece->is_recurring);
          const std::size_t count = std::min(channels * chunk, layout.event.count - expected_first);
          EXPECT_EQ(piece->count, count);
          if (index < 2) lane_totals[index] = piece->lane_count;
          lane_counts[index % 2] += count;
          expected_first += count;
          ++index;
        }
      }
      EXPECT_EQ(expected_first, layout.event.count);
      EXPECT_EQ(lane_totals[0], lane_counts[0]);
      EXPECT_EQ(lane_totals[1], lane_counts[1]);
    }
  }
  EXPECT_FALSE(take_whole(&book, 32768, 2).has_value());
}

TEST(TensorBook, KnowsNothingOfWhatDoesNotAddUp) {
  const TensorEvent event{nullptr, 100000, 4, 0};
  const auto first_piece = [&event](std::vector<TensorBook::ChannelEvent> channels,
                                    std::size_t bytes) {
    TensorBook book(2, 2);
    const std::uint64_t id = book.start_tensor(event);
    for (auto& channel : channels) {
      channel.tensor = id;
      book.add_channel(channel);
    }
    return take_whole(&book, bytes, 2).has_value();
  };
  // 400000 bytes: 7 steps of 2 channels of 32768.
  EXPECT_TRUE(first_piece({{0, 0, 7, 32768}, {0, 1, 7, 32768}}, 65536));
  EXPECT_FALSE(first_piece({{0, 0, 7, 32768}, {0, 1, 7, 32768}}, 32768));  // Another size.
  EXPECT_FALSE(first_piece({{0, 0, 7, 32768}, {0, 2, 7, 32768}}, 65536));  // A gap.
  EXPECT_FALSE(first_piece({{0, 1, 7, 32768}, {0, 2, 7, 32768}}, 65536));  // Others have the first.
  EXPECT_FALSE(first_piece({{0, 0, 7, 32768}}, 32768));                    // Others have the rest.
  EXPECT_FALSE(first_piece({{0, 0, 7, 32768}, {0, 1, 6, 32768}}, 65536));
  EXPECT_FALSE(first_piece({{0, 0, 0, 0}, {0, 1, 0, 0}}, 0));
  EXPECT_FALSE(first_piece({{0, 0, 7, 32767}, {0, 1, 7, 32767}}, 65534));  // Half an element.
  EXPECT_FALSE(first_piece({{0, 64, 7, 32768}}, 32768));
}

// Else the rest of its pieces would be taken for the next tensor's.
TEST(TensorBook, IsLostOnceSomethingDoesNotAddUp) {
  const auto is_lost_after = [](const auto& disturb) {
    TensorBook book(2, 2);
    std::mt19937 random(1);
    Layout layout;
    layout.event = {nullptr, 20000, 4, 0};  // 3 pieces.
    announce(&book, layout, &random);
    const std::uint64_t id = book.start_tensor(layout.event);
    disturb(&book, id);
    for (std::uint64_t sequence = 2; sequence < 5; ++sequence) {
      layout.event.sequence = sequence;
      announce(&book, layout, &random);
    }
    bool is_known = true;
    for (int piece = 0; piece < 9; ++piece) {
      is_known = is_known && take_whole(&book, 32768, 1).has_value();
    }
    EXPECT_NE(is_known, book.is_lost());
    return book.is_lost();
  };
  const auto take = [](TensorBook* book, int pieces) {
    for (int i = 0; i < pieces; ++i) EXPECT_TRUE(take_whole(book, 32768, 1).has_value());
  };
  EXPECT_FALSE(is_lost_after([](TensorBook*, std::uint64_t) {}));
  EXPECT_FALSE(is_lost_after([&](TensorBook* book, std::uint64_t) { take(book, 3); }));
  // A piece that nobody told of.
  EXPECT_TRUE(is_lost_after([&](TensorBook* book, std::uint64_t) {
    take(book, 3);
    EXPECT_FALSE(take_whole(book, 32768, 1).has_value());
  }));
  // A piece of another size.
  EXPECT_TRUE(is_lost_after([&](TensorBook* book, std::uint64_t) {
    take(book, 1);
    EXPECT_FALSE(take_whole(book, 16384, 1).has_value());
  }));
  // A channel of a tensor whose pieces have begun, are done, or whose turn was before another's.
  for (const int pieces : {1, 3}) {
    EXPECT_TRUE(is_lost_after([&](TensorBook* book, std::uint64_t id) {
      take(book, pieces);
      book->add_channel({id - 1, 0, 3, 32768});
    }));
  }
  EXPECT_TRUE(is_lost_after([](TensorBook* book, std::uint64_t id) {
    book->add_channel({id, 0, 3, 32768});
    book->add_channel({id - 1, 0, 3, 32768});
  }));
  // Of one that nobody knows, and of a channel that there is not.
  for (const std::uint64_t unknown : {0, 99}) {
    EXPECT_TRUE(is_lost_after([unknown](TensorBook* book, std::uint64_t) {
      book->add_channel({unknown, 0, 3, 32768});
    }));
  }
  EXPECT_TRUE(is_lost_after([](TensorBook* book, std::uint64_t id) {
    book->add_channel({id, 64, 3, 32768});
  }));
}

// The same piece on every rank, however late or early the event comes there.
TEST(TensorBook, IsLostAfterThePiecesBeforeAnEventThatDoesNotAddUp) {
  TensorBook book(2, 2);
  std::mt19937 random(1);
  Layout layout;
  layout.event = {nullptr, 20000, 4, 0};  // 3 pieces.
  announce(&book, layout, &random);
  book.add_channel({99, 0, 3, 32768});
  layout.event.sequence = 1;
  announce(&book, layout, &random);
  for (int piece = 0; piece < 3; ++piece) {
    EXPECT_FALSE(book.is_lost());
    EXPECT_TRUE(take_whole(&book, 32768, 1).has_value());
  }
  EXPECT_FALSE(take_whole(&book, 32768, 1).has_value());
  EXPECT_TRUE(book.is_lost());
}

TEST(TensorBook, DoesNotGrowWithoutEndWherePiecesDoNotCome) {
  TensorBook book(2, 2);
  for (std::uint64_t tensor = 0; tensor < 100000; ++tensor) {
    book.add_channel({book.start_tensor({nullptr, 1000, 4, tensor}), 0, 1, 32768});
  }
  std::size_t known = 0;
  while (take_whole(&book, 32768, 1).has_value()) ++known;
  EXPECT_LT(known, 100000U);
  EXPECT_TRUE(book.is_lost());
}

// A group of many tensors, all of which are told before the first channel of any.
TEST(TensorBook, RemembersTensorsThatAreFarAheadOfTheirChannels) {
  constexpr std::uint64_t kTensors = 5000;
  TensorBook book(2, 2);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::uint64_t> ids;
    for (std::uint64_t tensor = 0; tensor < kTensors; ++tensor) {
      ids.push_back(book.start_tensor({nullptr, 1 + tensor, 4, tensor}));
    }
    for (const std::uint64_t id : ids) book.add_channel({id, 0, 1, 32768});
    for (std::uint64_t tensor = 0; tensor < kTensors; ++tensor) {
      const auto piece = take_whole(&book, 32768, 1);
      ASSERT_TRUE(piece.has_value()) << tensor;
      EXPECT_EQ(piece->tensor.count, 1 + tensor);
    }
  }
}

// Where another rank of the node is the head.
TEST(TensorBook, ForgetsTensorsThatHaveNoChannels) {
  TensorBook book(2, 4);
  const std::uint64_t first = book.start_tensor({nullptr, 1000, 4, 0});
  std::uint64_t last = 0;
  for (std::uint64_t tensor = 1; tensor < 100000; ++tensor) {
    last = book.start_tensor({nullptr, 1000, 4, tensor});
  }
  book.add_channel({last, 0, 1, 32768});
  EXPECT_TRUE(book.take_piece({32768, 1, TensorPart::kShare}).has_value());
  book.add_channel({first, 0, 1, 32768});
  EXPECT_FALSE(book.take_piece({32768, 1, TensorPart::kShare}).has_value());
  EXPECT_TRUE(book.is_lost());
}

TEST(TensorBook, ASequenceThatStandsStillIsAReplay) {
  std::mt19937 random(2);
  TensorBook book(2, 2);
  for (const std::uint64_t sequence : {5, 5, 5, 6, 7, 7}) {
    static std::uint64_t last = 0;
    Layout layout;
    layout.event = {nullptr, 1000, 4, sequence};
    announce(&book, layout, &random);
    const auto piece = take_whole(&book, 32768, 1);
    ASSERT_TRUE(piece.has_value());
    EXPECT_EQ(piece->is_recurring, sequence != last);
    last = sequence;
  }
}

TEST(TensorBook, NamesALayoutByChunksAndChannels) {
  std::mt19937 random(3);
  TensorBook book(2, 2);
  std::vector<std::uint64_t> layouts;
  for (const std::size_t channels : {1U, 2U, 64U}) {
    for (const std::size_t chunk : {32768U, 65536U}) {
      Layout layout;
      layout.event = {nullptr, 1000, 4, layouts.size()};
      layout.channels = channels;
      layout.chunk_bytes = chunk;
      announce(&book, layout, &random);
      std::optional<TensorPiece> piece;
      for (std::size_t group = 0; group < channels; group += 8) {
        piece = take_whole(&book, std::min<std::size_t>(8, channels - group) * chunk, 1);
        ASSERT_TRUE(piece.has_value());
      }
      EXPECT_EQ(std::count(layouts.begin(), layouts.end(), piece->layout), 0);
      layouts.push_back(piece->layout);
    }
  }
}

// A head of several has some of the channels of a chain: 0, 2, 4, ... of 20.
TEST(TensorBook, GivesEveryPieceOfAShareItsTurn) {
  TensorBook book(2, 16);
  EXPECT_EQ(book.part(), TensorPart::kShare);
  const TensorEvent event{&book, 1000000, 4, 0};
  const std::uint64_t id = book.start_tensor(event);
  for (int direction = 0; direction < 2; ++direction) {
    for (unsigned channel = 0; channel < 20; channel += 2) {
      book.add_channel({id, channel, 7, 32768});
    }
  }
  std::size_t lane_totals[2] = {0, 0};
  std::size_t lane_counts[2] = {0, 0};
  for (std::size_t index = 0; index < 14; ++index) {
    const std::size_t channels = index % 2 == 0 ? 8 : 2;
    const auto piece = book.take_piece({channels * 32768, 2, TensorPart::kShare});
    ASSERT_TRUE(piece.has_value());
    EXPECT_EQ(piece->tensor.address, &book);
    EXPECT_EQ(piece->index, index);
    EXPECT_EQ(piece->count, channels * 8192);
    if (index < 2) lane_totals[index] = piece->lane_count;
    lane_counts[index % 2] += piece->count;
  }
  EXPECT_EQ(lane_totals[0], lane_counts[0]);
  EXPECT_EQ(lane_totals[1], lane_counts[1]);
  EXPECT_FALSE(book.take_piece({8 * 32768, 2, TensorPart::kShare}).has_value());
  // Another size than the channels have: not known.
  book.add_channel({book.start_tensor(event), 0, 7, 32768});
  EXPECT_FALSE(book.take_piece({2 * 32768, 2, TensorPart::kShare}).has_value());
}

TEST(TensorBooks, TellWhatAllOfACommunicatorTell) {
  EXPECT_EQ(told_part(1, 4), TensorPart::kNothing);
  EXPECT_EQ(told_part(std::nullopt, 4), TensorPart::kNothing);
  const auto a = open_tensor_book(1, 4, 4);
  EXPECT_EQ(told_part(1, 4), TensorPart::kWhole);
  EXPECT_EQ(told_part(std::nullopt, 4), TensorPart::kWhole);
  EXPECT_EQ(told_part(1, 2), TensorPart::kNothing);  // Of a communicator split off.
  EXPECT_EQ(told_part(std::nullopt, 2), TensorPart::kNothing);
  const auto b = open_tensor_book(2, 4, 32);
  const auto again = open_tensor_book(2, 4, 4);
  EXPECT_EQ(told_part(1, 4), TensorPart::kWhole);
  EXPECT_EQ(told_part(2, 4), TensorPart::kShare);
  EXPECT_EQ(told_part(3, 4), TensorPart::kNothing);
  EXPECT_EQ(told_part(std::nullopt, 4), TensorPart::kNothing);  // Of the one or of the other.
  close_tensor_book(a);
  EXPECT_EQ(told_part(std::nullopt, 4), TensorPart::kShare);
  close_tensor_book(b);
  close_tensor_book(again);
}

// Communicators that share a progress thread, two of them of as many nodes.
TEST(TensorBooks, TakeTurnsInTheirThread) {
  std::mt19937 random(4);
  const auto parent = open_tensor_book(1, 4, 4);
  const auto child = open_tensor_book(2, 4, 4);
  const auto smaller = open_tensor_book(3, 2, 2);
  Layout layout;
  const TensorBook::Slice slice{layout.chunk_bytes, 1, TensorPart::kWhole};
  const auto tell = [&](TensorBook* book, std::size_t count) {
    layout.event = {book, count, 4, 0};
    announce(book, layout, &random);
  };
  tell(smaller.get(), 1);
  tell(child.get(), 2);
  tell(parent.get(), 3);
  tell(child.get(), 4);
  // Another thread has no book.
  std::thread([&] { EXPECT_FALSE(take_piece_of_this_thread(4, slice).has_value()); }).join();
  for (const std::size_t count : {2U, 3U, 4U}) {
    const auto piece = take_piece_of_this_thread(4, slice);
    ASSERT_TRUE(piece.has_value());
    EXPECT_EQ(piece->tensor.count, count);
    EXPECT_EQ(piece->tensor.address, count == 3 ? parent.get() : child.get());
  }
  EXPECT_FALSE(take_piece_of_this_thread(4, slice).has_value());
  const auto piece = take_piece_of_this_thread(2, slice);
  ASSERT_TRUE(piece.has_value());
  EXPECT_EQ(piece->tensor.address, smaller.get());
  // The first of these was a piece of one of them, but of which?
  tell(parent.get(), 5);
  EXPECT_FALSE(take_piece_of_this_thread(4, slice).has_value());
  EXPECT_TRUE(parent->is_lost() && child->is_lost());
  EXPECT_FALSE(smaller->is_lost());
  close_tensor_book(parent);
  close_tensor_book(child);
  close_tensor_book(smaller);
}

// Those split off where CollNet had failed: each has a CollNet communicator of its own, in one
// thread.
// As a rule the system gives a new thread the number of the one that ended last.
TEST(TensorBooks, AreNotOfAThreadThatCameAfterTheirs) {
  std::mt19937 random(1);
  TensorBook book(2, 2);
  Layout layout;
  layout.event = {&layout, 100000, 4, 0};
  std::thread([&] {
    announce(&book, layout, &random);
    EXPECT_TRUE(book.is_of_this_thread());
  }).join();
  std::thread([&] { EXPECT_FALSE(book.is_of_this_thread()); }).join();
  EXPECT_FALSE(book.is_of_this_thread());
}

TEST(TensorBooks, KnowNothingOfTensorsThatAreAskedForFromTwoSides) {
  std::mt19937 random(5);
  const auto first = open_tensor_book(1, 4, 4);
  const auto second = open_tensor_book(2, 4, 4);
  Layout layout;
  const TensorBook::Slice slice{layout.chunk_bytes, 1, TensorPart::kWhole};
  layout.event = {nullptr, 1000, 4, 0};
  come_for_pieces(4);
  come_for_pieces(4);
  announce(first.get(), layout, &random);
  EXPECT_TRUE(take_piece_of_this_thread(4, slice).has_value());  // Nobody else's is near.
  layout.event.sequence = 1;
  announce(first.get(), layout, &random);
  announce(second.get(), layout, &random);
  EXPECT_FALSE(take_piece_of_this_thread(4, slice).has_value());
  EXPECT_TRUE(first->is_lost() && second->is_lost());
  leave_pieces(4);
  leave_pieces(4);
  close_tensor_book(first);
  close_tensor_book(second);
}

}  // namespace
}  // namespace ringpress::nccl_plugin::plugin
