// Gossip on model buffers: each worker keeps a copy of its model as it was at its last exchange,
// and exchanges with one other worker when the model has moved away from it.
//
//   1. change = ||x - x_ref|| / ||x_ref||, in one pass over both.
//   2. Every rank knows who meets whom in this step (ring::find_partner). The two send each other a
//      header of kHeaderBytes: whether they ask for an exchange, and whether they can take part.
//   3. If one of them asks, both send their models, or what a codec leaves of how far these are
//      from a base that all ranks have in common (rank 0's model at the start, after a flush what
//      that gave), and move towards the mean:
//      without a codec x = (x_i + x_j) / 2, the same bits on both; with one
//      x_i += (d_j - d_i) / 2, d what can be decoded, so that x_i + x_j stays what it was.
//   4. x_ref = x on both.
//
// That peers are a random matching and exchange whoever of them asks is reconstructed; the paper's
// abstract says that much only: by the change of the local model, with some other machine.
#ifndef NCCL_PLUGIN_GOSSIP_GOSSIP_H_
#define NCCL_PLUGIN_GOSSIP_GOSSIP_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "nccl_plugin/gossip/compare_options.h"
#include "nccl_plugin/gossip/model_exchange.h"
#include "nccl_plugin/gossip/options.h"
#include "nccl_plugin/gossip/peers.h"
#include "nccl_plugin/gossip/trigger.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin::gossip {

struct StepReport {
  double change = 0;
  bool has_exchanged = false;
  int peer = -1;            // Whom it met; -1: nobody.
  bool is_partial = false;  // Some values were too far apart for the codec, and stay as they are.
  std::uint64_t sent_bytes = 0;
};

struct GossipTotals {
  std::uint64_t steps = 0;
  std::uint64_t asked = 0;  // Steps in which this worker asked.
  std::uint64_t exchanges = 0;
  std::uint64_t sent_bytes = 0;
};

struct GossipHeader;

/// Of one worker. All ranks make it together, take as many steps and flush together. One thread at
/// a time. `peers` is lent to each call, as a communicator is; `stream` is that of models on a
/// device, the same at each call, which goes on when this thread does. Memory is only asked for
/// when it is made.
class Gossip {
 public:
  /// Compares the options with those of all ranks: kMismatch names the first that differs, with
  /// both ranks and values, everywhere. An error of one rank's own, or in place of its options, is
  /// one of all. `model` is the model as it is before the first step.
  static Result<std::unique_ptr<Gossip>> make(Peers& peers, std::unique_ptr<Models> models,
                                              const Result<GossipOptions>& options,
                                              const void* model, Stream stream = nullptr);

  /// kInvalidArgument on both that meet where one of the models is not finite: it names rank,
  /// element and value, and nothing is exchanged. The next step may go on.
  Result<StepReport> step(Peers& peers, void* model, Stream stream = nullptr);
  /// The exact mean of all models, on all ranks.
  Status flush(Peers& peers, void* model, Stream stream = nullptr);

  const GossipTotals& totals() const { return totals_; }

  static constexpr std::size_t kHeaderBytes = 32;

 private:
  Gossip(const GossipOptions& options, std::unique_ptr<Models> models);
  Status begin(const void* model, int rank, OwnPart* own);
  Status measure(const void* model, StepReport* report, GossipHeader* header);
  Status measure_change(const void* model, double* change, GossipHeader* header);
  Status look_for_non_finite(const void* model, GossipHeader* header) const;
  Status note_non_finite(const void* model, std::size_t element, GossipHeader* header) const;
  Status meet(Peers& peers, void* model, const GossipHeader& own, StepReport* report);

  const GossipOptions options_;
  ModelExchange exchange_;
  std::uint32_t number_ = 0;  // Equal on all ranks, and no other gossip's of theirs.
  Trigger trigger_;
  GossipTotals totals_;
};

}  // namespace ringpress::nccl_plugin::gossip

#endif  // NCCL_PLUGIN_GOSSIP_GOSSIP_H_
