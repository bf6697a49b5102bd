// What sra and ring share: a tensor cut into shards, and these into chunks, as
// ring/collective/chunked_call.h does, so that both make the same bytes.
#ifndef NCCL_PLUGIN_INTERPOSER_CALLS_CHUNKED_STREAM_CALL_H_
#define NCCL_PLUGIN_INTERPOSER_CALLS_CHUNKED_STREAM_CALL_H_

#include "nccl_plugin/interposer/calls/stream_call.h"
#include "ringpress/internal/shards.h"

namespace ringpress::nccl_plugin::interposer {

class ChunkedStreamCall : public StreamCall {
 public:
  std::uint64_t sent_bytes() const override { return sent_bytes_; }
  std::uint64_t raw_bytes() const override;

 protected:
  using Range = ElementRange;
  /// What one exchange takes to or from a rank; without bytes: nothing.
  struct Frame {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
  };

  explicit ChunkedStreamCall(const StreamCallParts& parts);

  Range chunk_of_shard(std::size_t owner, std::size_t chunk) const;
  const std::byte* send_at(std::size_t element) const;
  std::byte* receive_at(std::size_t element) const;
  std::size_t wire_bytes(const Range& range, std::size_t summed) const {
    return parts_.codec->codec().wire_bytes(range.count, {summed, parts_.world});
  }
  RandomKey random_key(const Range& range) const {
    return {parts_.seed, parts_.sequence, static_cast<std::uint32_t>(parts_.rank), range.offset};
  }
  float* residual(const Range& range) const {
    return parts_.residual == nullptr ? nullptr : parts_.residual + range.offset;
  }
  const std::uint8_t* scales(const Range& range) const {
    return parts_.scales == nullptr ? nullptr : parts_.scales + range.offset;
  }
  /// What a complete sum is divided by before it is encoded.
  std::size_t divisor() const;
  /// What it is divided by when it is decoded: codecs that sum codes leave averages to this.
  std::size_t divisor_of_decoded() const {
    return parts_.codec->codec().traits().summable ? divisor() : 1;
  }

  /// Our stream waits for the caller's, and for a former call in another of its streams.
  Status begin();
  /// The caller's stream waits for ours.
  Status end();
  /// What `to` does next waits for what `from` was asked for so far.
  Status hand_over(Event event, Stream from, Stream to);

  ncclResult_t send(const std::byte* memory, std::size_t bytes, std::size_t to);
  ncclResult_t receive(std::byte* memory, std::size_t bytes, std::size_t from);
  Frame frame(std::byte* memory, const Range& range, std::size_t summed) const {
    return {memory, range.count == 0 ? 0 : wire_bytes(range, summed)};
  }
  /// Sends each other rank what `sent(rank)` says, and receives `received(rank)` of it.
  template <typename Sent, typename Received>
  ncclResult_t exchange_with_all(Sent&& sent, Received&& received) {
    for (std::size_t distance = 1; distance < parts_.world; ++distance) {
      const std::size_t to = (parts_.rank + distance) % parts_.world;
      const std::size_t from = (parts_.rank + parts_.world - distance) % parts_.world;
      const Frame out = sent(to);
      const Frame in = received(from);
      ncclResult_t result = out.bytes == 0 ? ncclSuccess : send(out.memory, out.bytes, to);
      if (result == ncclSuccess && in.bytes > 0) result = receive(in.memory, in.bytes, from);
      if (result != ncclSuccess) return result;
    }
    return ncclSuccess;
  }

  const StreamCallParts parts_;
  const bool scatters_only_;
  const std::size_t element_bytes_;
  std::size_t chunk_elements_ = 0;
  std::size_t chunks_ = 0;

 private:
  Range shard(std::size_t owner) const;

  std::uint64_t sent_bytes_ = 0;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_CALLS_CHUNKED_STREAM_CALL_H_
