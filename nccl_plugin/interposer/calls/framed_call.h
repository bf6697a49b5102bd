// What goes ahead of a call, and what it is timed by.
#ifndef NCCL_PLUGIN_INTERPOSER_CALLS_FRAMED_CALL_H_
#define NCCL_PLUGIN_INTERPOSER_CALLS_FRAMED_CALL_H_

#include <cstddef>
#include <cstdint>

#include "nccl_plugin/interposer/calls/stream_call.h"
#include "ringpress/internal/device.h"

namespace ringpress::nccl_plugin::interposer {

/// What rank 0 tells all ranks, or each of them the others, who get the largest: some words, of
/// which the last one arrives last.
struct TravelingWords {
  std::size_t count = 0;                // 0: nothing is told.
  std::uint64_t* on_device = nullptr;   // While they travel.
  const std::uint64_t* sent = nullptr;  // Host memory that streams read.
  std::uint64_t* received = nullptr;    // Host memory that they write.
  bool is_of_all = false;               // Else of rank 0 alone.
};

/// What a call has sent, once its last step is asked for.
struct SentByCall {
  bool is_known = false;
  std::uint64_t compressed_bytes = 0;  // 0: it is exact.
  std::uint64_t raw_bytes = 0;         // What they would be uncompressed.
};

struct CallFrame {
  TravelingWords words;                  // The same count on all ranks.
  Event begin = nullptr, end = nullptr;  // Null: not timed.
  SentByCall* sent = nullptr;            // Null: nobody asks.

  bool is_empty() const { return words.count == 0 && begin == nullptr && sent == nullptr; }
};

/// Of the communicator and of the call.
struct FramedParts {
  const ringpressRealNccl* real = nullptr;
  ncclComm_t comm = nullptr;
  int rank = 0;
  Device* device = nullptr;
  Stream stream = nullptr;
};
/// `call` with its frame, or alone if that is empty. What the frame refers to outlives it.
StreamCallPointer make_framed_call(const FramedParts& parts, const CallFrame& frame,
                                   StreamCallPointer call);

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_CALLS_FRAMED_CALL_H_
