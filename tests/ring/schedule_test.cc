#include "ring/collective/schedule.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "compress_kernels/factory.h"

namespace ringpress::ring {
namespace {

RC_GTEST_PROP(Shards, CoverTheTensorWithoutOverlapAndStartAligned, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(0, 1 << 20);
  const auto world = *rc::gen::inRange<std::size_t>(1, 65);
  const auto alignment = *rc::gen::element<std::size_t>(1, 64, 1024);
  const auto shards = even_shards(count, world, alignment);
  RC_ASSERT(shards.size() == world);
  std::size_t next = 0;
  for (const Range& shard : shards) {
    RC_ASSERT(shard.offset == next);
    RC_ASSERT(shard.count == 0 || shard.offset % alignment == 0);
    RC_ASSERT(shard.count <= shards[0].count);
    next += shard.count;
  }
  RC_ASSERT(next == count);
  RC_ASSERT(shards[0].count <= (count / world / alignment + 1) * alignment);
}

RC_GTEST_PROP(Chunks, CoverTheShard, ()) {
  const Range shard{*rc::gen::inRange<std::size_t>(0, 1000),
                    *rc::gen::inRange<std::size_t>(0, 9999)};
  const auto chunk_elements = *rc::gen::inRange<std::size_t>(1, 2000);
  std::size_t next = shard.offset;
  for (std::size_t chunk = 0; chunk < chunk_count({&shard, 1}, chunk_elements); ++chunk) {
    const Range range = chunk_of(shard, chunk, chunk_elements);
    RC_ASSERT(range.offset == next);
    RC_ASSERT(range.count > 0 && range.count <= chunk_elements);
    next += range.count;
  }
  RC_ASSERT(next == shard.offset + shard.count);
  RC_ASSERT(chunk_of(shard, chunk_count({&shard, 1}, chunk_elements), chunk_elements).count == 0);
}

TEST(ChunkSize, IsWholeTilesAndFitsTheCache) {
  for (const char* specification : {"none", "fp16", "q8", "q4", "q1"}) {
    const auto codec = compress_kernels::make_codec(specification, DType::kFloat32, ReduceOp::kSum);
    ASSERT_TRUE(codec.is_ok());
    for (const std::size_t shard : {std::size_t{1}, std::size_t{5000}, std::size_t{1} << 30}) {
      const std::size_t elements = choose_chunk_elements(shard, *codec.value());
      EXPECT_EQ(elements % kTileElements, 0U);
      EXPECT_GE(elements, kTileElements);
      EXPECT_LE(elements * sizeof(float), 512U * 1024);
      for (const std::size_t world : {1, 2, 3, 64}) {
        const std::size_t local = choose_local_chunk_elements(shard, *codec.value(), world);
        EXPECT_EQ(local % kTileElements, 0U);
        EXPECT_GE(local, kTileElements);
        EXPECT_LE(local * sizeof(float), 1024U * 1024);
      }
    }
  }
}

TEST(EqualShards, AreEqual) {
  const auto shards = equal_shards(10, 3);
  EXPECT_EQ(shards, (std::pmr::vector<Range>{{0, 10}, {10, 10}, {20, 10}}));
}

}  // namespace
}  // namespace ringpress::ring
