// Gossip on model buffers: each worker keeps a copy of its model as it was at its last exchange,
// and exchanges with one other worker when the model has moved away from it.
//
//   1. change = ||x - x_ref|| / ||x_ref||, in one pass over both.
//   2. Every rank knows who meets whom in this step (ring::find_partner). The two send each other a
//      header of kHeaderBytes: whether they ask for an exchange, and whether they can take part.
//   3. If one of them asks, both send their models, or what a codec leaves of how far these are
//   from a
//      base that all ranks have had in common since the start, and become the mean:
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
#include <string>
#include <vector>

#include "nccl_plugin/gossip/peers.h"
#include "nccl_plugin/gossip/trigger.h"
#include "ringpress/codec.h"
#include "ringpress/status.h"
#include "ringpress/types.h"

namespace ringpress::nccl_plugin::gossip {

struct GossipOptions {
  std::size_t count = 0;  // Elements of the model.
  DType dtype = DType::kFloat32;
  TriggerRule rule;
  std::uint64_t seed = 0;
  std::string codec = "none";
};

/// Ok, or which field is out of range and what is allowed.
Status check(const GossipOptions& options);

struct StepReport {
  double change = 0;
  bool has_exchanged = false;
  int peer = -1;  // Whom it met; -1: nobody.
  std::uint64_t sent_bytes = 0;
};

struct GossipTotals {
  std::uint64_t steps = 0;
  std::uint64_t asked = 0;  // Steps in which this worker asked.
  std::uint64_t exchanges = 0;
  std::uint64_t sent_bytes = 0;
};

/// Of one worker. All ranks make it together, take as many steps and flush together. One thread at
/// a time. `peers` is lent to each call, as a communicator is.
class Gossip {
 public:
  /// Compares the options with those of all ranks: kMismatch names the first that differs, with
  /// both ranks and values, everywhere. An error of one rank's own, or in place of its options, is
  /// one of all. `model` is the model as it is before the first step.
  static Result<std::unique_ptr<Gossip>> make(Peers& peers, const Result<GossipOptions>& options,
                                              const void* model);

  /// kInvalidArgument on both that meet where one of the models is not finite: it names rank,
  /// element and value, and nothing is exchanged. The next step may go on.
  Result<StepReport> step(Peers& peers, void* model);
  /// The exact mean of all models, on all ranks.
  Status flush(Peers& peers, void* model);

  const GossipTotals& totals() const { return totals_; }

  static constexpr std::size_t kHeaderBytes = 32;

 private:
  struct Header;

  Gossip(const GossipOptions& options, std::unique_ptr<Codec> codec);
  Status keep_base(Peers& peers, const void* model);
  Header measure(const void* model, StepReport* report);
  Status compare(Peers& peers, int peer, const Header& own, const Header& theirs) const;
  Status exchange(Peers& peers, int peer, void* model, StepReport* report);
  Status exchange_values(Peers& peers, int peer, void* model, StepReport* report);
  Status exchange_differences(Peers& peers, int peer, void* model, StepReport* report);
  void keep_reference(const void* model);

  const GossipOptions options_;
  const std::unique_ptr<Codec>
      codec_;  // Of float32 differences; or of the values, if it is `none`.
  Trigger trigger_;
  std::vector<std::byte> reference_;
  std::vector<float> base_;  // Empty without a codec.
  std::vector<float> own_, theirs_;
  std::vector<std::byte> sent_, received_;
  GossipTotals totals_;
};

}  // namespace ringpress::nccl_plugin::gossip

#endif  // NCCL_PLUGIN_GOSSIP_GOSSIP_H_
