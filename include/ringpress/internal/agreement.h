// What the ranks agree on before they encode, for codecs whose encoded forms depend on the values
// of all of them: a shared norm, without which integer codes of different ranks could not be added.
//
// Each rank summarises its own values, summaries are merged (any order gives the same bytes), and
// every rank encodes with what came out. There are two kinds. One summary of the whole tensor is
// made before its first chunk is encoded. Each chunk has any number of rounds of its own, which the
// collective lets travel while earlier chunks do.
#ifndef RINGPRESS_INTERNAL_AGREEMENT_H_
#define RINGPRESS_INTERNAL_AGREEMENT_H_

#include <cstddef>

namespace ringpress {

/// What was agreed on for a range of elements, as the operations of a codec take it.
struct Agreed {
  const std::byte* tensor = nullptr;  // tensor_bytes() of them, or null.
  /// chunk_bytes(range) of them, or null: the summaries of all rounds, one after the other, each at
  /// a multiple of 8 bytes from the first.
  const std::byte* chunk = nullptr;
};

struct SummariseArgs {
  const void* values = nullptr;     // count elements, any alignment.
  std::size_t count = 0;            // Of the whole tensor, or of a chunk.
  const float* residual = nullptr;  // Is added to the values first. Null: none.
  Agreed agreed{};                  // From the tensor and the rounds before.
  std::byte* summary = nullptr;     // Gets tensor_bytes() or round_bytes(); 8-byte aligned.
};

class Agreement {
 public:
  virtual ~Agreement() = default;

  /// Bytes of a summary of a whole tensor; 0: there is none.
  virtual std::size_t tensor_bytes() const { return 0; }
  /// False if each rank goes by the summary of its own tensor, so that nothing needs to be sent.
  virtual bool tensor_is_shared() const { return true; }
  virtual void summarise_tensor(const SummariseArgs&) const {}
  /// Changes `into` to the summary of what both summarise.
  virtual void merge_tensor(const std::byte* /*from*/, std::byte* /*into*/) const {}

  /// Rounds per chunk.
  virtual int rounds() const { return 0; }
  /// Bytes of round `round`'s summary of `count` elements.
  virtual std::size_t round_bytes(int /*round*/, std::size_t /*count*/) const { return 0; }
  virtual void summarise(int /*round*/, const SummariseArgs&) const {}
  /// Changes `into` to the summary of what both summarise.
  virtual void merge(int /*round*/, std::size_t /*count*/, const std::byte* /*from*/,
                     std::byte* /*into*/) const {}

  /// Where round `round` begins in Agreed::chunk, in bytes.
  std::size_t round_offset(int round, std::size_t count) const {
    std::size_t offset = 0;
    for (int r = 0; r < round; ++r) offset += (round_bytes(r, count) + 7) / 8 * 8;
    return offset;
  }
  /// Bytes of Agreed::chunk for `count` elements.
  std::size_t chunk_bytes(std::size_t count) const { return round_offset(rounds(), count); }
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_AGREEMENT_H_
