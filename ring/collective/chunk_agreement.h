// How the ranks of one call agree on a summary of each chunk before any of them encodes it
// (ringpress/internal/agreement.h). Each round has two stages, and what they send is small:
//
//   even stage   summarise own values of a slice (one chunk of every shard); send each owner the
//                summary of its chunk                                          (step 2 r of kSteps)
//   odd stage    on the owner: merge what came, in rank order; send it to everybody      (2 r + 1)
//
// collect() takes what the owners of the other shards sent. The stages run ahead of those that
// encode, in the same pipeline: the summary of one chunk travels while earlier chunks do.
#ifndef RING_COLLECTIVE_CHUNK_AGREEMENT_H_
#define RING_COLLECTIVE_CHUNK_AGREEMENT_H_

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "ring/collective/pipeline.h"
#include "ring/collective/schedule.h"
#include "ringpress/internal/agreement.h"
#include "ringpress/internal/collective.h"

namespace ringpress::ring {

struct ShardedTensor;

/// Where the summaries of a call lie: that of the tensor, and those of every chunk of every shard.
class SummaryMemory {
 public:
  /// For no agreement, null, it is empty.
  SummaryMemory(const Agreement* agreement, std::size_t world, std::size_t chunks,
                std::size_t chunk_elements, std::pmr::memory_resource* memory);

  /// Null: there is none.
  std::byte* tensor() const { return tensor_summary_; }
  /// All rounds' of one chunk.
  std::byte* chunk(std::size_t owner, std::size_t chunk) const {
    return chunk_summaries_ + (owner * chunks_ + chunk) * stride_bytes_;
  }
  const std::pmr::vector<std::uint64_t>& tensor_words() const { return tensor_words_; }

 private:
  const std::size_t chunks_;        // Of one shard.
  const std::size_t stride_bytes_;  // Of one chunk of one shard.
  // Words, so that summaries are aligned.
  std::pmr::vector<std::uint64_t> tensor_words_;
  std::pmr::vector<std::uint64_t> chunk_words_;
  std::byte* const tensor_summary_;
  std::byte* const chunk_summaries_;
};

class ChunkAgreement {
 public:
  /// `tensor` must outlive this object, and holds the values of all shards.
  ChunkAgreement(const CollectiveContext& context, const ShardedTensor& tensor,
                 std::size_t chunk_elements);

  /// Stages that a slice passes before it can be encoded.
  std::size_t stages() const { return 2 * static_cast<std::size_t>(rounds_); }
  /// Agrees on the tensor as a whole. Before the first stage.
  Status agree_on_tensor();
  Status run_stage(std::size_t stage, std::size_t chunk);
  /// Takes the results of the last round of a slice; at most once per slice, after its last stage.
  Status collect(std::size_t chunk);
  /// Waits for the last sends.
  Status drain() { return sending_.drain(); }

  /// What was agreed on for chunk number `chunk` of the shard that `owner` reduces.
  Agreed of(std::size_t owner, std::size_t chunk) const;

 private:
  Status exchange_tensor_summaries();
  Status publish_own(std::size_t stage, std::size_t chunk);
  Status merge_and_publish(std::size_t stage, std::size_t chunk);
  /// Waits for the results that were expected in the odd stage `stage`.
  Status collect_results(std::size_t stage, std::size_t chunk);
  void summarise(int round, std::size_t owner, std::size_t chunk);
  Range range_of(std::size_t owner, std::size_t chunk) const;
  Buffer summary_of(std::size_t owner, std::size_t chunk, int round) const;
  FrameLabel label(std::size_t stage, std::size_t chunk) const;

  const CollectiveContext& context_;
  const Agreement* const agreement_;  // Null: nothing to agree on, and all of the above is empty.
  const ShardedTensor& tensor_;
  const std::size_t chunk_elements_;
  const std::size_t rank_;
  const std::size_t world_;
  const int rounds_;
  const SummaryMemory memory_;
  SendWindow sending_;
  ReceiveWindow arriving_;  // By stage and peer.
};

}  // namespace ringpress::ring

#endif  // RING_COLLECTIVE_CHUNK_AGREEMENT_H_
