// What is left of a gradient that was far too large for one step is not owed to the next steps.
//
// Error feedback sends later what a codec could not send now. After a spike, of a bad batch
// perhaps, that is many times a usual gradient, and it would spoil the steps that follow. Without a
// codec a spike spoils one step alone; so a residual that is fifty times as large as it has been of
// late is dropped. Each rank looks at its own, which need not be agreed on.
#ifndef NCCL_PLUGIN_SESSION_CALLS_RESIDUAL_SPIKE_H_
#define NCCL_PLUGIN_SESSION_CALLS_RESIDUAL_SPIKE_H_

#include <cstddef>

namespace ringpress::nccl_plugin {

/// After a call. `residual`: `count` floats in host memory, or null for none. `usual`: how large it
/// has been of late, 0 at first; gets what is usual from now on. True: it was a spike's, and is
/// zero now. (The next that is as large is usual: gradients may have grown.)
bool drop_spike(float* residual, std::size_t count, float* usual);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_RESIDUAL_SPIKE_H_
