// Which tensor a piece belongs to, against every piece of random tensors laid out by hand.
#include "nccl_plugin/plugin/tensor_registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "nccl_plugin/plugin/profiled_tensors.h"
#include "tests/support/collnet_operations.h"
#include "tests/support/profiled_operation.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

using testing::Layout;
using testing::ProfiledOperation;

constexpr std::size_t kChunk = 32768;

Layout layout_of(std::size_t count, std::uint64_t sequence = 0, std::size_t channels = 1) {
  return {{nullptr, count, 4, sequence}, channels, kChunk};
}

TEST(ProfiledTensors, GiveEveryPieceOfEveryTensorItsPlace) {
  std::mt19937 random(1);
  testing::ProxyArgsPool pool;
  TensorRegistry registry(2, 2);
  ProfiledTensors profiled;
  std::uint64_t sequence = 0;
  for (int round = 0; round < 100; ++round) {
    std::vector<Layout> layouts(1 + random() % 5);
    std::vector<ProfiledOperation> operations;
    for (Layout& layout : layouts) {
      layout.event = {&layout, 1 + random() % 3000000, random() % 2 == 0 ? 4U : 2U, sequence++};
      layout.channels = 1 + random() % 24;
      layout.chunk_bytes = kChunk << random() % 4;
      operations.emplace_back(&pool, layout);
      operations.back().tell(&registry, &profiled);
    }
    for (ProfiledOperation& operation : operations) {
      const Layout& layout = operation.layout();
      const std::size_t chunk = layout.chunk_bytes / layout.event.element_bytes;
      std::size_t expected_first = 0;
      std::size_t lane_totals[2] = {0, 0};
      std::size_t lane_counts[2] = {0, 0};
      for (std::size_t index = 0; index < operation.piece_count(); ++index) {
        const std::size_t channels = operation.channels_of(index);
        const auto piece = operation.take(&profiled, 2);
        ASSERT_TRUE(piece.has_value());
        EXPECT_EQ(piece->tensor.address, layout.event.address);
        EXPECT_EQ(piece->index, index);
        EXPECT_TRUE(piece->is_recurring);
        const std::size_t count = std::min(channels * chunk, layout.event.count - expected_first);
        EXPECT_EQ(piece->count, count);
        if (index < 2) lane_totals[index] = piece->worker_count;
        lane_counts[index % 2] += count;
        expected_first += count;
      }
      EXPECT_EQ(expected_first, layout.event.count);
      EXPECT_EQ(lane_totals[0], lane_counts[0]);
      EXPECT_EQ(lane_totals[1], lane_counts[1]);
      EXPECT_FALSE(operation.take(&profiled, 2).has_value());  // One that nobody told of.
    }
  }
  EXPECT_LE(profiled.records(), 2U * 24 * 5);  // They are used again.
}

TEST(ProfiledTensors, KnowNothingOfWhatDoesNotAddUp) {
  using Channels = std::vector<ProfiledTensors::ChannelEvent>;
  // 400000 bytes: 7 steps of 2 channels of 32768.
  const auto is_known = [](Channels channels, std::size_t bytes) {
    TensorRegistry registry(2, 2);
    ProfiledTensors profiled;
    testing::ProxyArgs args;
    const std::uint64_t id = registry.start_tensor({nullptr, 100000, 4, 0});
    for (std::size_t i = 0; i < channels.size(); ++i) {
      channels[i].tensor = id;
      if (channels[i].address == nullptr) channels[i].address = &args.subs[i].event;
      profiled.add_channel(&registry, channels[i]);
    }
    const void* const request = &args.subs[channels.size() - 1].requests[0];
    return profiled.take_piece({request, bytes, 2, TensorPart::kWhole}).has_value();
  };
  testing::ProxyArgs other;
  EXPECT_TRUE(is_known({{0, 0, 7, 32768}, {0, 1, 7, 32768}}, 65536));
  EXPECT_FALSE(is_known({{0, 0, 7, 32768}, {0, 1, 7, 32768}}, 32768));  // Another size.
  EXPECT_FALSE(is_known({{0, 0, 7, 32768}, {0, 2, 7, 32768}}, 65536));  // A gap.
  EXPECT_FALSE(is_known({{0, 1, 7, 32768}, {0, 2, 7, 32768}}, 65536));  // Others have the first.
  EXPECT_FALSE(is_known({{0, 0, 7, 32768}}, 32768));                    // Others have the rest.
  EXPECT_FALSE(is_known({{0, 0, 7, 32768}, {0, 1, 6, 32768}}, 65536));
  EXPECT_FALSE(is_known({{0, 0, 0, 0}, {0, 1, 0, 0}}, 0));
  EXPECT_FALSE(is_known({{0, 0, 7, 32767}, {0, 1, 7, 32767}}, 65534));  // Half an element.
  EXPECT_FALSE(is_known({{0, 64, 7, 32768}}, 32768));
  // The other channel goes to another network device: an operation of its own.
  void** const elsewhere = &other.subs[0].event;
  EXPECT_FALSE(is_known({{0, 0, 7, 32768, elsewhere}, {0, 1, 7, 32768}}, 65536));
  // All handles at one place, as if it were the caller's variable.
  EXPECT_FALSE(is_known({{0, 0, 7, 32768, elsewhere}, {0, 1, 7, 32768, elsewhere}}, 65536));
}

// Nor of the rest of its pieces. Other tensors are known all the same, in whatever order.
TEST(ProfiledTensors, KnowTheOthersWhereOneDoesNotAddUp) {
  testing::ProxyArgsPool pool;
  TensorRegistry registry(2, 2);
  ProfiledTensors profiled;
  ProfiledOperation first(&pool, layout_of(20000, 0));  // 3 pieces.
  ProfiledOperation wrong(&pool, layout_of(20000, 1));
  ProfiledOperation last(&pool, layout_of(20000, 2));
  for (ProfiledOperation* operation : {&first, &wrong, &last})
    operation->tell(&registry, &profiled);
  EXPECT_TRUE(wrong.take(&profiled).has_value());
  EXPECT_FALSE(wrong.take_bytes(&profiled, 2 * kChunk).has_value());
  EXPECT_TRUE(last.take(&profiled).has_value());
  EXPECT_FALSE(wrong.take(&profiled).has_value());
  for (int piece = 0; piece < 3; ++piece) EXPECT_TRUE(first.take(&profiled).has_value());
  EXPECT_TRUE(last.take(&profiled).has_value());
}

// Pieces of the operation that had the places before are not taken for its.
TEST(ProfiledTensors, ForgetWhatHadThePlaceBefore) {
  testing::ProxyArgsPool pool;
  TensorRegistry registry(2, 2);
  ProfiledTensors profiled;
  for (const std::uint64_t unknown : {0, 99}) {
    ProfiledOperation known(&pool, layout_of(20000));
    known.tell(&registry, &profiled);
    EXPECT_TRUE(known.take(&profiled).has_value());
    known.tell_as(unknown, &registry, &profiled);
    EXPECT_FALSE(known.take(&profiled).has_value());
  }
  ProfiledOperation known(&pool, layout_of(20000));
  known.tell(&registry, &profiled);
  EXPECT_TRUE(known.take(&profiled).has_value());
  known.forget(&profiled);
  EXPECT_FALSE(known.take(&profiled).has_value());
  // A tensor whose turn was before another's.
  ProfiledOperation again(&pool, layout_of(20000));
  const std::uint64_t id = again.tell(&registry, &profiled);
  ProfiledOperation between(&pool, layout_of(20000));
  between.tell(&registry, &profiled);
  again.tell_as(id, &registry, &profiled);
  EXPECT_FALSE(again.take(&profiled).has_value());
  EXPECT_TRUE(between.take(&profiled).has_value());
}

// Nor is a tensor of which more is told when its first piece has come.
TEST(ProfiledTensors, KnowNothingOfWhatIsToldTooLate) {
  testing::ProxyArgsPool pool;
  TensorRegistry registry(2, 2);
  ProfiledTensors profiled;
  ProfiledOperation operation(&pool, layout_of(20000));  // 3 pieces.
  const std::uint64_t id = operation.tell(&registry, &profiled);
  EXPECT_TRUE(operation.take(&profiled).has_value());
  testing::ProxyArgs elsewhere;
  profiled.add_channel(&registry, {id, 0, 3, kChunk, &elsewhere.subs[0].event});
  EXPECT_FALSE(operation.take(&profiled).has_value());
}

TEST(ProfiledTensors, DoNotGrowWithoutEndWherePiecesDoNotCome) {
  testing::ProxyArgsPool pool;
  TensorRegistry registry(2, 2);
  ProfiledTensors profiled;
  for (std::uint64_t tensor = 0; tensor < 100000; ++tensor) {
    ProfiledOperation(&pool, layout_of(1000, tensor)).tell(&registry, &profiled);
  }
  EXPECT_EQ(profiled.records(), 2U);
}

// A group of many tensors, all of which are told before the first channel of any.
TEST(ProfiledTensors, AreKnownFarAheadOfTheirChannels) {
  constexpr std::uint64_t kTensors = 5000;
  testing::ProxyArgsPool pool;
  TensorRegistry registry(2, 2);
  ProfiledTensors profiled;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::uint64_t> ids;
    for (std::uint64_t tensor = 0; tensor < kTensors; ++tensor) {
      ids.push_back(registry.start_tensor({nullptr, 1 + tensor, 4, tensor}));
    }
    for (std::uint64_t tensor = 0; tensor < kTensors; ++tensor) {
      ProfiledOperation operation(&pool, layout_of(1 + tensor, tensor));
      operation.tell_as(ids[tensor], &registry, &profiled);
      const auto piece = operation.take(&profiled);
      ASSERT_TRUE(piece.has_value()) << tensor;
      EXPECT_EQ(piece->tensor.count, 1 + tensor);
    }
  }
}

// Where another rank of the node is the head.
TEST(TensorRegistry, ForgetsTensorsThatHaveNoChannels) {
  TensorRegistry registry(2, 4);
  const std::uint64_t first = registry.start_tensor({nullptr, 1000, 4, 0});
  std::uint64_t last = 0;
  for (std::uint64_t tensor = 1; tensor < 100000; ++tensor) {
    last = registry.start_tensor({nullptr, 1000, 4, tensor});
  }
  EXPECT_FALSE(registry.begin(first).has_value());
  EXPECT_TRUE(registry.begin(last).has_value());
  EXPECT_FALSE(registry.begin(last).has_value());  // Once.
}

/// How many numbers of channels, of at least a group, so many steps of the tensor fit.
int fitting_channels(const Layout& layout) {
  int fitting = 0;
  for (std::size_t channels = 8; channels <= 64; ++channels) {
    Layout other = layout;
    other.channels = channels;
    fitting += other.steps() == layout.steps() ? 1 : 0;
  }
  return fitting;
}

// All pieces of a tensor are known, or none; no piece is ever given another place than its own.
TEST(ProfiledTensorsOfFirstChannels, FindTheOthersInTheFirstPieceOrKnowNothing) {
  std::mt19937 random(6);
  testing::ProxyArgsPool pool;
  TensorRegistry registry(2, 2, ProfiledChannels::kFirst);
  ProfiledTensors profiled;
  int known[2] = {0, 0};  // Of few channels, and of more than a group.
  int unknown = 0;
  std::uint64_t sequence = 0;
  for (int round = 0; round < 1000; ++round) {
    std::vector<Layout> layouts(1 + random() % 5);
    std::vector<ProfiledOperation> operations;
    for (Layout& layout : layouts) {
      layout.event = {&layout, 1 + random() % 3000000, random() % 2 == 0 ? 4U : 2U, sequence++};
      layout.channels = 1 + random() % (random() % 2 == 0 ? 7 : 64);
      layout.chunk_bytes = kChunk << random() % 4;
      operations.emplace_back(&pool, layout);
      operations.back().tell(&registry, &profiled);
    }
    for (ProfiledOperation& operation : operations) {
      const Layout& layout = operation.layout();
      const bool is_certain = layout.channels < 8 || fitting_channels(layout) == 1;
      std::size_t first = 0;
      for (std::size_t index = 0; index < operation.piece_count(); ++index) {
        const auto piece = operation.take(&profiled);
        ASSERT_EQ(piece.has_value(), is_certain) << layout.channels << " channels";
        if (!is_certain) continue;
        EXPECT_EQ(piece->tensor.address, layout.event.address);
        EXPECT_EQ(piece->index, index);
        const std::size_t chunk = layout.chunk_bytes / layout.event.element_bytes;
        EXPECT_EQ(piece->count,
                  std::min(operation.channels_of(index) * chunk, layout.event.count - first));
        first += piece->count;
      }
      EXPECT_EQ(first, is_certain ? layout.event.count : 0);
      EXPECT_FALSE(operation.take(&profiled).has_value());
      (is_certain ? known[layout.channels < 8 ? 0 : 1] : unknown) += 1;
    }
  }
  EXPECT_GT(known[0], 100);
  EXPECT_GT(known[1], 30);
  EXPECT_GT(unknown, 100);
}

// The size of a share says nothing of channels.
TEST(ProfiledTensorsOfFirstChannels, FindThoseOfAShareBelowAGroup) {
  testing::ProxyArgsPool pool;
  TensorRegistry registry(2, 16, ProfiledChannels::kFirst);
  ProfiledTensors profiled;
  for (const std::size_t channels : {1, 2, 7, 8, 16}) {
    ProfiledOperation operation(&pool, layout_of(1000000, channels, channels));
    operation.tell(&registry, &profiled);
    const std::size_t bytes = operation.channels_of(0) * kChunk;
    const auto piece = operation.take_bytes(&profiled, bytes, 1, TensorPart::kShare);
    EXPECT_EQ(piece.has_value(), channels < 8) << channels;
  }
}

TEST(ProfiledTensorsOfFirstChannels, KnowNothingOfWhatDoesNotAddUp) {
  // 400000 bytes: 7 steps of 2 channels of 32768.
  const auto is_known = [](std::size_t steps, std::size_t bytes, std::size_t channel) {
    TensorRegistry registry(2, 2, ProfiledChannels::kFirst);
    ProfiledTensors profiled;
    testing::ProxyArgs args;
    const std::uint64_t id = registry.start_tensor({nullptr, 100000, 4, 0});
    profiled.add_channel(&registry, {id, 0, steps, 32768, &args.subs[0].event});
    const void* const request = &args.subs[channel].requests[0];
    return profiled.take_piece({request, bytes, 2, TensorPart::kWhole}).has_value();
  };
  EXPECT_TRUE(is_known(7, 65536, 1));
  EXPECT_TRUE(is_known(13, 32768, 0));
  EXPECT_FALSE(is_known(7, 131072, 3));  // Too many steps for 4.
  EXPECT_FALSE(is_known(7, 65537, 1));   // No whole chunks.
  EXPECT_FALSE(is_known(7, 65536, 0));   // With another channel.
  EXPECT_FALSE(is_known(7, 65536, 40));
  EXPECT_FALSE(is_known(0, 65536, 1));
  EXPECT_FALSE(is_known(7, 0, 1));
  EXPECT_FALSE(is_known(2, 9 * 32768, 8));  // More than a group.
  // Two network devices: operations of their own.
  TensorRegistry registry(2, 2, ProfiledChannels::kFirst);
  ProfiledTensors profiled;
  testing::ProxyArgs args[2];
  const std::uint64_t id = registry.start_tensor({nullptr, 100000, 4, 0});
  for (unsigned device = 0; device < 2; ++device) {
    profiled.add_channel(&registry, {id, device, 7, 32768, &args[device].subs[0].event});
  }
  for (auto& of_device : args) {
    EXPECT_FALSE(
        profiled.take_piece({&of_device.subs[0].requests[0], 32768, 2, TensorPart::kWhole}));
  }
}

TEST(ProfiledTensors, ASequenceThatStandsStillIsAReplay) {
  testing::ProxyArgsPool pool;
  TensorRegistry registry(2, 2);
  ProfiledTensors profiled;
  std::uint64_t last = 0;
  for (const std::uint64_t sequence : {5, 5, 5, 6, 7, 7}) {
    ProfiledOperation operation(&pool, layout_of(1000, sequence));
    operation.tell(&registry, &profiled);
    const auto piece = operation.take(&profiled);
    ASSERT_TRUE(piece.has_value());
    EXPECT_EQ(piece->is_recurring, sequence != last);
    last = sequence;
  }
}

TEST(ProfiledTensors, NameALayoutByChunksAndChannels) {
  testing::ProxyArgsPool pool;
  TensorRegistry registry(2, 2);
  ProfiledTensors profiled;
  std::vector<std::uint64_t> layouts;
  for (const std::size_t channels : {1U, 2U, 64U}) {
    for (const std::size_t chunk : {32768U, 65536U}) {
      ProfiledOperation operation(&pool, {{nullptr, 1000, 4, layouts.size()}, channels, chunk});
      operation.tell(&registry, &profiled);
      const auto piece = operation.take(&profiled);
      ASSERT_TRUE(piece.has_value());
      EXPECT_EQ(std::count(layouts.begin(), layouts.end(), piece->layout), 0);
      layouts.push_back(piece->layout);
    }
  }
}

// A head of several has some of the channels of a chain: 0, 2, 4, ... of 20.
TEST(ProfiledTensors, GiveEveryPieceOfAShareItsTurn) {
  TensorRegistry registry(2, 16);
  ProfiledTensors profiled;
  testing::ProxyArgs send;
  testing::ProxyArgs receive;
  EXPECT_EQ(registry.part(), TensorPart::kShare);
  const std::uint64_t id = registry.start_tensor({&registry, 1000000, 4, 0});
  for (unsigned sub = 0; sub < 10; ++sub) {
    profiled.add_channel(&registry, {id, 2 * sub, 7, kChunk, &send.subs[sub].event});
    profiled.add_channel(&registry, {id, 2 * sub, 7, kChunk, &receive.subs[sub].event});
  }
  std::size_t lane_totals[2] = {0, 0};
  std::size_t lane_counts[2] = {0, 0};
  for (std::size_t index = 0; index < 14; ++index) {
    const std::size_t channels = index % 2 == 0 ? 8 : 2;
    const void* const request = &send.subs[index % 2 == 0 ? 7 : 9].requests[index / 2];
    const auto piece = profiled.take_piece({request, channels * kChunk, 2, TensorPart::kShare});
    ASSERT_TRUE(piece.has_value());
    EXPECT_EQ(piece->tensor.address, &registry);
    EXPECT_EQ(piece->index, index);
    EXPECT_EQ(piece->count, channels * 8192);
    if (index < 2) lane_totals[index] = piece->worker_count;
    lane_counts[index % 2] += piece->count;
  }
  EXPECT_EQ(lane_totals[0], lane_counts[0]);
  EXPECT_EQ(lane_totals[1], lane_counts[1]);
  const void* const request = &send.subs[7].requests[7];
  EXPECT_FALSE(profiled.take_piece({request, 8 * kChunk, 2, TensorPart::kShare}).has_value());
}

// Of an operation's other direction, of the middle of a group, or of nothing that was profiled.
TEST(ProfiledTensors, APieceThatDoesNotComeWithTheLastChannelOfItsGroupIsNotKnown) {
  const auto is_known = [](const auto& request_of) {
    TensorRegistry registry(2, 2);
    ProfiledTensors profiled;
    testing::ProxyArgs send;
    testing::ProxyArgs receive;
    const std::uint64_t id = registry.start_tensor({nullptr, 2 * 8192, 4, 0});
    for (unsigned sub = 0; sub < 2; ++sub) {
      profiled.add_channel(&registry, {id, sub, 1, kChunk, &send.subs[sub].event});
      profiled.add_channel(&registry, {id, sub, 1, kChunk, &receive.subs[sub].event});
    }
    return profiled.take_piece({request_of(send, receive), 2 * kChunk, 2, TensorPart::kWhole})
        .has_value();
  };
  using Args = testing::ProxyArgs;
  EXPECT_TRUE(is_known([](Args& send, Args&) { return &send.subs[1].requests[0]; }));
  EXPECT_TRUE(is_known([](Args& send, Args&) { return &send.subs[1].requests[7]; }));
  EXPECT_FALSE(is_known([](Args& send, Args&) { return &send.subs[0].requests[0]; }));
  EXPECT_FALSE(is_known([](Args& send, Args&) { return &send.subs[2].requests[0]; }));
  EXPECT_FALSE(is_known([](Args&, Args& receive) { return &receive.subs[1].requests[0]; }));
  void* local = nullptr;
  EXPECT_FALSE(is_known([&local](Args&, Args&) { return &local; }));
}

TEST(TensorRegistries, TellTheLeastOfAllThatItMayBe) {
  EXPECT_EQ(profiled_part(1, 4), TensorPart::kNothing);
  EXPECT_EQ(profiled_part(std::nullopt, 4), TensorPart::kNothing);
  const auto a = open_tensor_registry(1, 4, 4);
  EXPECT_EQ(profiled_part(1, 4), TensorPart::kWhole);
  EXPECT_EQ(profiled_part(std::nullopt, 4), TensorPart::kWhole);
  EXPECT_EQ(profiled_part(1, 2), TensorPart::kNothing);
  const auto child = open_tensor_registry(5, 2, 2);  // Split off: of fewer nodes.
  EXPECT_EQ(profiled_part(1, 2), TensorPart::kWhole);
  const auto b = open_tensor_registry(2, 4, 32);
  const auto again = open_tensor_registry(2, 4, 4);
  EXPECT_EQ(profiled_part(1, 4), TensorPart::kWhole);
  EXPECT_EQ(profiled_part(2, 4), TensorPart::kShare);
  EXPECT_EQ(profiled_part(3, 4), TensorPart::kShare);  // Of the one or of the other.
  EXPECT_EQ(profiled_part(std::nullopt, 4), TensorPart::kShare);
  close_tensor_registry(b);
  EXPECT_EQ(profiled_part(std::nullopt, 4), TensorPart::kWhole);
  for (const auto& registry : {a, child, again}) close_tensor_registry(registry);
  EXPECT_EQ(profiled_part(1, 4), TensorPart::kNothing);
}

TEST(ProfiledTensors, AreOfTheThreadThatWasTold) {
  testing::ProxyArgsPool pool;
  TensorRegistry registry(2, 2);
  ProfiledOperation operation(&pool, layout_of(100000));
  std::thread([&] { operation.tell(&registry, &profiled_tensors_of_this_thread()); }).join();
  std::thread([&] {
    EXPECT_FALSE(operation.take(&profiled_tensors_of_this_thread()).has_value());
  }).join();
}

}  // namespace
}  // namespace ringpress::nccl_plugin::plugin
