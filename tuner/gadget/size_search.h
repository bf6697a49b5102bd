// The sizes of all rings at once, by branch and bound: what gains more than is known already, as
// far as there are places for it. For few bids and servers; with steps enough it finds the optimum.
#ifndef TUNER_GADGET_SIZE_SEARCH_H_
#define TUNER_GADGET_SIZE_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ringpress/internal/gadget.h"
#include "tuner/gadget/packing.h"
#include "tuner/gadget/placement_search.h"
#include "tuner/gadget/size_bounds.h"

namespace ringpress::gadget {

class SizeSearch {
 public:
  /// Both must outlive the search.
  SizeSearch(const Cluster& cluster, const std::vector<Bid>& bids);

  /// Whether rings were found that gain more than so much. `steps`: that may be taken, and are
  /// taken off.
  bool run(double known, std::size_t* steps);

  /// Those that were found, and what they gain.
  std::vector<Ring> rings() const;
  double gain() const { return best_.gain; }

 private:
  /// An option of each of the candidates so far; -1: nothing.
  using Chosen = std::vector<int>;
  struct Found {
    double gain = 0;
    Chosen chosen;
    std::vector<std::vector<Share>> places;
  };

  void add_candidate(std::size_t bid);
  void try_candidate(std::size_t at, double gain);
  void try_chosen(std::size_t at, double gain);
  bool is_hopeless(double most) const;
  bool find_place(const Demand& demand, std::size_t workers, std::vector<Share>* place);
  bool place_all_anew();
  PlacementSearch::Answer place_in_order(First first);
  bool is_above_a_failure() const;
  /// That is chosen of a candidate.
  const RingOption& option_of(std::size_t candidate) const {
    return candidates_[candidate].options[static_cast<std::size_t>(chosen_[candidate])];
  }

  const Cluster& cluster_;
  const std::vector<Bid>& bids_;
  SizeBounds bounds_;
  std::vector<RingCandidate> candidates_;
  PlacementSearch search_;
  std::size_t* steps_ = nullptr;
  std::size_t steps_of_a_packing_ = 0;
  bool has_given_up_ = false;  // A look for places that there may be.

  // Where the search is.
  Chosen chosen_;
  std::vector<std::vector<Share>> places_;  // Of each candidate.
  Free free_;
  std::vector<Chosen> failures_;  // For which there are no places; nor for more.

  Found best_;
};

}  // namespace ringpress::gadget

#endif  // TUNER_GADGET_SIZE_SEARCH_H_
