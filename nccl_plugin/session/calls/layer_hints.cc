#include "nccl_plugin/session/calls/layer_hints.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ringpress::nccl_plugin {
namespace {

std::string describe(const Layer& layer) {
  return "the layer of " + std::to_string(layer.count) + " elements at " +
         std::to_string(layer.offset);
}

Status check(const Layer& layer, std::size_t tensor_count) {
  if (layer.offset > tensor_count || layer.count > tensor_count - layer.offset) {
    return {Code::kInvalidArgument, describe(layer) + " reaches beyond the " +
                                        std::to_string(tensor_count) + " of the call"};
  }
  if (layer.rows == 0 && layer.columns == 0) return Status::ok();
  // Divided: the product could wrap around.
  if (layer.rows != 0 && layer.columns != 0 && layer.count % layer.rows == 0 &&
      layer.count / layer.rows == layer.columns) {
    return Status::ok();
  }
  return {Code::kInvalidArgument, describe(layer) + " has " + std::to_string(layer.rows) +
                                      " rows of " + std::to_string(layer.columns) +
                                      ": the product must be the count, or both 0 (a vector)"};
}

}  // namespace

Status LayerHints::set(const HintedCall& call, std::span<const Layer> layers) {
  std::vector<Layer> sorted;
  for (const Layer& layer : layers) {
    RINGPRESS_RETURN_IF_ERROR(check(layer, call.count));
    if (layer.count > 0) sorted.push_back(layer);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const Layer& a, const Layer& b) { return a.offset < b.offset; });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].offset - sorted[i - 1].offset >= sorted[i - 1].count) continue;
    return {Code::kInvalidArgument, describe(sorted[i]) + " overlaps " + describe(sorted[i - 1])};
  }
  if (sorted.empty()) {
    layers_.erase(call);
  } else {
    layers_[call] = std::move(sorted);
  }
  return Status::ok();
}

std::span<const Layer> LayerHints::find(const HintedCall& call) const {
  auto found = layers_.find(call);
  if (found == layers_.end()) found = layers_.find({call.count, call.dtype, nullptr});
  if (found == layers_.end()) return {};
  return found->second;
}

}  // namespace ringpress::nccl_plugin
