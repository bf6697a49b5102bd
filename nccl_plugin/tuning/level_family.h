// The levels of compression that a call of RINGPRESS_CODEC=auto may have instead of the budget's
// codec: codecs that differ from it in how much they send and lose, and what each of them would
// lose of given values.
#ifndef NCCL_PLUGIN_TUNING_LEVEL_FAMILY_H_
#define NCCL_PLUGIN_TUNING_LEVEL_FAMILY_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringpress/error_tables.h"
#include "ringpress/settings.h"

namespace ringpress::nccl_plugin::tuning {

class LevelFamily {
 public:
  virtual ~LevelFamily() = default;

  /// At least two, by index; all ranks have the same.
  virtual std::size_t levels() const = 0;
  /// For the codec factory; valid as long as this.
  virtual const std::string& specification(std::size_t level) const = 0;
  /// The budget's codec.
  virtual std::size_t default_level() const = 0;
  /// What a call counts with that is to be compressed less (Accordion): about half of the error.
  virtual std::size_t careful_level() const = 0;
  /// True if parts of one call may have different levels (CollectiveContext::parts).
  virtual bool has_parts() const = 0;
  /// That are sent for so many values.
  virtual double bytes(std::size_t level, std::size_t count) const = 0;
  /// l2 norms of what each level would lose, by level; infinity where values are not finite.
  virtual std::vector<double> errors(const MeasuredTensor& tensor) const = 0;
};

/// Of RINGPRESS_BUDGET: bits for `q2` to `q8` rounded to nearest, on the uniform grid, of a block,
/// and with RINGPRESS_ADJUST_GRIDS=both on the other one too; densities for `topk`. Null for all
/// others, which have no levels.
std::unique_ptr<LevelFamily> make_level_family(const Settings& settings);

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_TUNING_LEVEL_FAMILY_H_
