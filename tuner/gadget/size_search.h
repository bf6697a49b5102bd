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
  double gain() const { return best_; }

 private:
  /// What a bid could get.
  struct Option {
    Choice choice;
    Demand demand;
    double gain = 0;
    std::vector<std::size_t> parts;  // Of each measure, rounded down.
  };
  /// A bid with all that it could get, the largest gain first. Of options of which one gains at
  /// most as much as another one and needs as much or more there is only the other one.
  struct Candidate {
    std::size_t bid = 0;
    std::vector<Option> options;
  };
  /// Something of which the cluster has kParts in all, and options some: a resource, or the mean of
  /// two. most[i][n]: what candidates from i on could gain with n parts, wherever these are.
  struct Measure {
    std::vector<double> weights;  // Parts of one unit of each resource.
    std::vector<std::vector<double>> most;
  };
  /// An option of each of the candidates so far; -1: nothing.
  using Chosen = std::vector<int>;

  void add_measures();
  void add_candidate(std::size_t bid);
  std::vector<std::size_t> parts_of(const Amounts& worker, std::size_t workers) const;
  static bool needs_as_much(const Option& option, const Option& other);
  void find_bounds();
  void try_candidate(std::size_t at, double gain);
  void try_chosen(std::size_t at, double gain);
  bool is_hopeless(double most) const;
  bool find_place(const Demand& demand, std::size_t workers, std::vector<Share>* place);
  bool place(std::size_t at);
  bool place_all_anew();
  PlacementSearch::Answer place_in(const std::vector<std::size_t>& order);
  std::vector<std::size_t> in_order(First first) const;
  double most_of_rest(std::size_t at) const;
  bool is_above_a_failure() const;
  void use(const Option& option, bool takes);
  /// That is chosen of a candidate.
  const Option& option_of(std::size_t candidate) const {
    return candidates_[candidate].options[static_cast<std::size_t>(chosen_[candidate])];
  }

  static constexpr std::size_t kParts = 256;

  const Cluster& cluster_;
  const std::vector<Bid>& bids_;
  std::vector<Measure> measures_;
  std::vector<Candidate> candidates_;
  PlacementSearch search_;
  std::size_t* steps_ = nullptr;
  std::size_t steps_of_a_packing_ = 0;
  bool has_given_up_ = false;  // A look for places that there may be.

  // Where the search is.
  Chosen chosen_;
  std::vector<std::vector<Share>> places_;  // Of each candidate.
  Free free_;
  std::vector<std::size_t> parts_left_;  // Of each measure.
  std::vector<Chosen> failures_;         // For which there are no places; nor for more.

  double best_ = 0;
  Chosen best_chosen_;
  std::vector<std::vector<Share>> best_places_;
};

}  // namespace ringpress::gadget

#endif  // TUNER_GADGET_SIZE_SEARCH_H_
