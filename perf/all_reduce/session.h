// The ranks of one run: who they are, a communicator to organise with, and one per setting.
#ifndef PERF_ALL_REDUCE_SESSION_H_
#define PERF_ALL_REDUCE_SESSION_H_

#include <memory>
#include <vector>

#include "perf/all_reduce/group.h"
#include "perf/all_reduce/launch.h"
#include "perf/all_reduce/options.h"
#include "perf/all_reduce/table.h"

namespace ringpress::perf {

class Session {
 public:
  /// Collective: meets the other ranks.
  Session(const Options& options, const RankIdentity& identity);

  int rank() const { return identity_.rank; }
  int ranks() const { return identity_.ranks; }
  bool is_root() const { return identity_.rank == 0; }
  /// Exact; for barriers, gathered times and sums that must be right.
  Group& control() const { return *control_; }
  /// The communicator of options.settings[index].
  Group& measured(std::size_t index) const { return *measured_[index]; }
  const std::vector<RankDescription>& rank_descriptions() const { return descriptions_; }

 private:
  RankIdentity identity_;
  std::unique_ptr<Group> control_;
  std::vector<std::unique_ptr<Group>> measured_;
  std::vector<RankDescription> descriptions_;
};

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_SESSION_H_
