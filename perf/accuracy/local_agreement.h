// What the ranks of an all-reduce would agree on, worked out in one process: for tests and
// measurements of codecs.
#ifndef PERF_ACCURACY_LOCAL_AGREEMENT_H_
#define PERF_ACCURACY_LOCAL_AGREEMENT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ringpress/internal/codec.h"

namespace ringpress::perf {

/// One rank's values of a range, or of a whole tensor.
struct RankValues {
  const void* values = nullptr;
  const float* residual = nullptr;
};

/// Summaries of a tensor or a chunk in 8-byte aligned memory. Empty: the codec needs none.
class LocalAgreement {
 public:
  /// Merges the summaries of all ranks' tensors; of rank `own` alone if the codec does not share.
  static LocalAgreement of_tensor(const Codec& codec, const std::vector<RankValues>& ranks,
                                  std::size_t own, std::size_t count) {
    const Agreement* agreement = codec.agreement();
    LocalAgreement result(agreement == nullptr ? 0 : agreement->tensor_bytes());
    if (result.words_.empty()) return result;
    LocalAgreement other(agreement->tensor_bytes());
    SummariseArgs args = arguments(ranks[own], count, {});
    args.summary = result.bytes();
    agreement->summarise_tensor(args);
    for (std::size_t rank = 0; agreement->tensor_is_shared() && rank < ranks.size(); ++rank) {
      if (rank == own) continue;
      args = arguments(ranks[rank], count, {});
      args.summary = other.bytes();
      agreement->summarise_tensor(args);
      agreement->merge_tensor(other.bytes(), result.bytes());
    }
    return result;
  }

  /// All rounds of one chunk. `tensor`: what was agreed on before.
  static LocalAgreement of_chunk(const Codec& codec, const std::vector<RankValues>& ranks,
                                 std::size_t count, const LocalAgreement& tensor) {
    const Agreement* agreement = codec.agreement();
    LocalAgreement result(agreement == nullptr ? 0 : agreement->chunk_bytes(count));
    if (result.words_.empty()) return result;
    LocalAgreement other(agreement->chunk_bytes(count));
    for (int round = 0; round < agreement->rounds(); ++round) {
      std::byte* merged = result.bytes() + agreement->round_offset(round, count);
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        SummariseArgs args = arguments(ranks[rank], count, agreed(tensor, result));
        args.summary = rank == 0 ? merged : other.bytes();
        agreement->summarise(round, args);
        if (rank > 0) agreement->merge(round, count, other.bytes(), merged);
      }
    }
    return result;
  }

  bool operator==(const LocalAgreement&) const = default;

  /// What the operations of a codec take.
  static Agreed agreed(const LocalAgreement& tensor, const LocalAgreement& chunk) {
    return {tensor.bytes(), chunk.bytes()};
  }

 private:
  explicit LocalAgreement(std::size_t bytes) : words_((bytes + 7) / 8) {}

  static SummariseArgs arguments(const RankValues& rank, std::size_t count, Agreed agreed) {
    SummariseArgs args;
    args.values = rank.values;
    args.count = count;
    args.residual = rank.residual;
    args.agreed = agreed;
    return args;
  }
  std::byte* bytes() {
    return words_.empty() ? nullptr : reinterpret_cast<std::byte*>(words_.data());
  }
  const std::byte* bytes() const {
    return words_.empty() ? nullptr : reinterpret_cast<const std::byte*>(words_.data());
  }

  std::vector<std::uint64_t> words_;
};

}  // namespace ringpress::perf

#endif  // PERF_ACCURACY_LOCAL_AGREEMENT_H_
