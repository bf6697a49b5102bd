// Rings that are placed, and how they change: one job gets more workers, or all are placed anew.
#ifndef TUNER_GADGET_PACKING_H_
#define TUNER_GADGET_PACKING_H_

#include <cstddef>
#include <vector>

#include "tuner/gadget/packer.h"

namespace ringpress::gadget {

/// The part of the cluster's resource that a worker of each bid takes most of.
std::vector<double> dominant_shares(const Cluster& cluster, const std::vector<Bid>& bids);

/// What is packed first; what comes last fits into gaps.
enum class First { kLargestRing, kLargestWorker, kLargestRate };

/// What a bid gets.
struct Choice {
  std::size_t workers = 0;
  bool saves = false;  // As of Ring.
};

class Packing {
 public:
  /// Nothing is placed. Both must outlive the packing. `most_placements`: rings that packing all
  /// anew may place over time; then only what fits beside the rest is placed.
  Packing(const Cluster& cluster, const std::vector<Bid>& bids, std::size_t most_placements)
      : cluster_(cluster),
        bids_(bids),
        shares_(dominant_shares(cluster, bids)),
        packer_(cluster),
        choices_(bids.size()),
        places_(bids.size()),
        placements_left_(most_placements) {}

  std::size_t workers(std::size_t job) const { return choices_[job].workers; }

  /// Gives the job this, no fewer workers than it has: at another place if need be, and if there is
  /// none by packing all anew. False: nothing has changed.
  bool grow(std::size_t job, const Choice& choice);

  /// Packs all anew with these choices: the largest rings first, or if that fails the largest
  /// workers, or rates. False: nothing has changed.
  bool repack(const std::vector<Choice>& choices);

  bool may_repack() const { return placements_left_ >= bids_.size(); }
  const std::vector<Choice>& choices() const { return choices_; }
  std::vector<Ring> rings() const;

 private:
  std::vector<std::size_t> in_order(const std::vector<Choice>& choices, First first) const;
  bool pack(const std::vector<Choice>& choices, const std::vector<std::size_t>& order);

  const Cluster& cluster_;
  const std::vector<Bid>& bids_;
  const std::vector<double> shares_;  // Of the cluster, one worker of each job.
  Packer packer_;
  std::vector<Choice> choices_;
  std::vector<std::vector<Share>> places_;
  std::size_t placements_left_;
};

}  // namespace ringpress::gadget

#endif  // TUNER_GADGET_PACKING_H_
