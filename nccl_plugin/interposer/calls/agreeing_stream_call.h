// How the ranks of a call in streams agree on a summary of the tensor, and of each chunk, before
// any of them encodes it (ringpress/internal/agreement.h): as ring/collective/chunk_agreement.h, so
// that both make the same bytes.
//
// The tensor has a step of its own before all others: everybody sends its summary to everybody and
// merges what came. A chunk has two exchanges for each of its rounds, which sra and ring put among
// those of earlier chunks:
//
//   even   summarise own values of a slice (one chunk of every shard); send each owner the summary
//          of its chunk
//   odd    on the owner: merge what came; send it to everybody
//
// What is done between two exchanges is asked for in our stream, which has waited for the former.
// Memory of a chunk, for each rank: what is agreed on for the chunk of its shard (first the own
// summary), and the summary that it has sent of ours.
#ifndef NCCL_PLUGIN_INTERPOSER_CALLS_AGREEING_STREAM_CALL_H_
#define NCCL_PLUGIN_INTERPOSER_CALLS_AGREEING_STREAM_CALL_H_

#include "nccl_plugin/interposer/calls/chunked_stream_call.h"

namespace ringpress::nccl_plugin::interposer {

/// What a lane needs in LaneShape::agreement_bytes; 0: there is nothing to agree on.
std::size_t agreement_bytes(const Codec& codec, std::size_t chunk_elements, std::size_t world);

class AgreeingStreamCall : public ChunkedStreamCall {
 protected:
  explicit AgreeingStreamCall(const StreamCallParts& parts);

  /// Whether the tensor has a summary. Then step 0 is about it: the first of these comes before its
  /// exchange, the last one after it.
  bool has_tensor_summary() const { return tensor_bytes_ > 0; }
  Status summarise_tensor();
  ncclResult_t exchange_tensor_summaries();
  Status merge_tensor_summaries();

  /// Exchanges that a chunk passes before it can be encoded.
  std::size_t agreement_stages() const { return 2 * static_cast<std::size_t>(rounds_); }
  /// What comes before the exchange of a stage.
  Status prepare_agreement(std::size_t stage, std::size_t chunk);
  ncclResult_t exchange_agreement(std::size_t stage, std::size_t chunk);

  /// What was agreed on for chunk number `chunk` of the shard that `owner` reduces.
  Agreed agreed(std::size_t owner, std::size_t chunk) const;

  // Of that chunk:
  /// Own values, as those of `summed` ranks, to `wire`.
  EncodeArgs encode_arguments(std::size_t owner, std::size_t chunk, std::size_t summed,
                              std::byte* wire) const;
  /// Own values are added; what has arrived and where the sum goes is for the caller to say.
  DecodeAddEncodeArgs hop_arguments(std::size_t owner, std::size_t chunk, std::size_t summed) const;
  /// The complete sum, to its place.
  DecodeArgs decode_arguments(std::size_t owner, std::size_t chunk, const std::byte* wire) const;

 private:
  Status summarise(int round, std::size_t chunk);
  Status merge(int round, std::size_t chunk);
  ncclResult_t send_to_owners(int round, std::size_t chunk);
  ncclResult_t send_to_everybody(int round, std::size_t chunk);
  std::byte* tensor_summary(std::size_t rank) const;
  std::byte* agreed_at(std::size_t owner, std::size_t chunk) const;
  std::byte* summary_at(int round, std::size_t owner, std::size_t chunk) const;
  std::byte* incoming_at(std::size_t rank, std::size_t chunk) const;
  Frame summary_frame(int round, std::byte* memory, const Range& range) const;

  const Agreement* const agreement_;  // Null: nothing to agree on, and all of the above is empty.
  const int rounds_;
  const std::size_t tensor_bytes_;
  CallVector<SummariseArgs> summaries_;
  CallVector<const std::byte*> incoming_;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_CALLS_AGREEING_STREAM_CALL_H_
