// What ranks agree on before they encode, made by a device or by the reference.
#ifndef TESTS_COMPRESS_KERNELS_AGREED_CHUNK_H_
#define TESTS_COMPRESS_KERNELS_AGREED_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ringpress/internal/agreement.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"
#include "tests/compress_kernels/device_shard.h"

namespace ringpress::compress_kernels::testing {

/// What ranks with the values of these shards agree on, in memory of its own. The shards have the
/// same count and are not changed.
class AgreedChunk {
 public:
  AgreedChunk() = default;
  AgreedChunk(const Agreement& agreement, DeviceAgreement& device,
              const std::vector<const Shard*>& ranks) {
    const std::size_t count = ranks.front()->count;
    tensor_.resize((agreement.tensor_bytes() + 7) / 8);
    chunk_.resize(agreement.chunk_bytes(count) / 8);
    if (!tensor_.empty()) {
      agree(ranks, bytes_of(tensor_), tensor_.size(), [&](const auto& summaries) {
        for (const SummariseArgs& args : summaries) note(device.summarise_tensor(nullptr, args));
        note(device.merge_tensor(nullptr, others(summaries), summaries.front().summary));
      });
    }
    for (int round = 0; round < agreement.rounds(); ++round) {
      const std::size_t words = (agreement.round_bytes(round, count) + 7) / 8;
      std::byte* const into = bytes_of(chunk_) + agreement.round_offset(round, count);
      agree(ranks, into, words, [&](const auto& summaries) {
        note(device.summarise(nullptr, round, summaries));
        note(device.merge(nullptr, round, count, others(summaries), into));
      });
    }
  }

  Agreed get() const {
    return {reinterpret_cast<const std::byte*>(tensor_.data()),
            reinterpret_cast<const std::byte*>(chunk_.data())};
  }
  const Status& status() const { return status_; }
  bool has_bytes_of(const AgreedChunk& other) const {
    return tensor_ == other.tensor_ && chunk_ == other.chunk_;
  }

 private:
  static std::byte* bytes_of(std::vector<std::uint64_t>& words) {
    return reinterpret_cast<std::byte*>(words.data());
  }
  static std::vector<const std::byte*> others(const std::vector<SummariseArgs>& summaries) {
    std::vector<const std::byte*> all;
    for (std::size_t i = 1; i < summaries.size(); ++i) all.push_back(summaries[i].summary);
    return all;
  }
  void note(const Status& status) {
    if (status_.is_ok()) status_ = status;
  }

  /// make(summaries) makes one of each rank and merges them into the first one, which is `into`.
  template <typename Make>
  void agree(const std::vector<const Shard*>& ranks, std::byte* into, std::size_t words,
             Make&& make) {
    std::vector<std::uint64_t> memory(words * ranks.size());
    std::vector<SummariseArgs> summaries;
    for (const Shard* shard : ranks) {
      SummariseArgs args;
      args.values = shard->values.data();
      args.count = shard->count;
      if (shard->has_residual) {
        args.residual = reinterpret_cast<const float*>(shard->residual.data());
      }
      args.agreed = get();
      args.summary = summaries.empty() ? into : bytes_of(memory) + 8 * words * summaries.size();
      summaries.push_back(args);
    }
    make(summaries);
  }

  std::vector<std::uint64_t> tensor_;  // Words: summaries are aligned.
  std::vector<std::uint64_t> chunk_;
  Status status_ = Status::ok();
};

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_AGREED_CHUNK_H_
