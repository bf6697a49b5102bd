// A rank that runs out of memory in the middle of a collective: the others hear of it, and nothing
// is received into memory that has gone.
#include <new>

#include "tests/contract/collective_contract.h"

namespace ringpress::testing {
namespace {

/// A codec that works until it has encoded so many chunks.
class Exhausted : public Codec {
 public:
  Exhausted(std::unique_ptr<Codec> codec, int chunks) : codec_(std::move(codec)), left_(chunks) {}

  const CodecTraits& traits() const override { return codec_->traits(); }
  const std::string& specification() const override { return codec_->specification(); }
  DType dtype() const override { return codec_->dtype(); }
  ReduceOp op() const override { return codec_->op(); }
  std::size_t wire_bytes(std::size_t count, Contributions form) const override {
    return codec_->wire_bytes(count, form);
  }
  const Agreement* agreement() const override { return codec_->agreement(); }
  std::size_t encode(const EncodeArgs& args) const override {
    if (left_-- <= 0) throw std::bad_alloc();
    return codec_->encode(args);
  }
  void decode(const DecodeArgs& args) const override { codec_->decode(args); }
  void decode_add(const DecodeAddArgs& args) const override { codec_->decode_add(args); }
  std::size_t decode_add_encode(const DecodeAddEncodeArgs& args) const override {
    return codec_->decode_add_encode(args);
  }

 private:
  std::unique_ptr<Codec> codec_;
  mutable int left_;
};

Status all_reduce(ThreadMesh* mesh, const CollectiveCase& c, int chunks) {
  const Exhausted codec(codec_for(c), chunks);
  const std::vector<float> send(c.count, 1.0f);
  std::vector<float> receive(c.count);
  const auto context = context_for(c, mesh, &codec, CollectiveKind::kAllReduce, 0);
  try {
    return ring::make_collective(c.algorithm)
        ->all_reduce(context, {send.data(), receive.data(), c.count});
  } catch (const std::bad_alloc&) {
    return {Code::kSystem, "unwound"};
  }
}

TEST(Unwind, FailsTheCallOnEveryRank) {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kSra}) {
    for (const char* specification : {"q4", "qsgd"}) {
      CollectiveCase c;
      c.algorithm = algorithm;
      c.codec = specification;
      c.world = 3;
      c.count = 30000;
      auto fabric = std::make_shared<ThreadFabric>(c.world);
      std::vector<Status> outcomes(3);
      std::vector<std::thread> threads;
      for (int rank = 0; rank < c.world; ++rank) {
        threads.emplace_back([&, rank] {
          ThreadMesh mesh(fabric, rank);
          outcomes[static_cast<std::size_t>(rank)] = all_reduce(&mesh, c, rank == 1 ? 4 : 1000);
        });
      }
      for (std::thread& thread : threads) thread.join();
      EXPECT_EQ(outcomes[1].message(), "unwound");
      for (const int other : {0, 2}) {
        const Status& status = outcomes[static_cast<std::size_t>(other)];
        EXPECT_EQ(status.code(), Code::kSystem) << specification;
        EXPECT_NE(status.message().find("rank 1 ran out of memory"), std::string::npos)
            << status.message();
      }
    }
  }
}

}  // namespace
}  // namespace ringpress::testing
