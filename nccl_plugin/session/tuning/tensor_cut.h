// How a tensor is cut into parts that may have levels of compression of their own.
#ifndef NCCL_PLUGIN_SESSION_TUNING_TENSOR_CUT_H_
#define NCCL_PLUGIN_SESSION_TUNING_TENSOR_CUT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ringpress/internal/projection.h"

namespace ringpress::nccl_plugin::tuning {

/// Elements of a segment, for steps of so many elements in all: 64 Ki; less, down to 4 Ki, where
/// there would be few of them, and more where the choice among them would take long. A power of
/// two.
std::size_t segment_elements(std::size_t step_elements);

/// Where the parts of a tensor end, in ascending order; the last one at `count`, which is not 0.
/// Where layers are known, which are in ascending order, each is a part, and what lies between them
/// too; else every segment is. Ends are moved to the next multiple of kTileElements, so that a
/// layer of less than half of that may have none of its own.
std::vector<std::size_t> cut_tensor(std::size_t count, std::span<const Layer> layers,
                                    std::size_t segment);

/// Equal for equal cuts, exact as a double.
std::uint64_t hash_of_cut(std::span<const std::size_t> ends);

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_SESSION_TUNING_TENSOR_CUT_H_
