// How long the residuals of a communicator are, from samples that its calls take now and then.
#ifndef NCCL_PLUGIN_SESSION_LIVE_RESIDUAL_NORMS_H_
#define NCCL_PLUGIN_SESSION_LIVE_RESIDUAL_NORMS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace ringpress::nccl_plugin {

class ResidualNorms {
 public:
  /// A call has left this residual, of which a sample is looked at once after each renew(). By the
  /// thread that makes calls.
  void note(const float* residual, std::size_t count);
  /// As Statistics::residual_norm. Any thread.
  std::optional<double> norm() const;
  /// The next call of each tensor looks at its residual anew. Any thread.
  void renew() { wanted_.fetch_add(1, std::memory_order_relaxed); }

 private:
  /// Of a tensor, as it was when the norm was wanted for the so manieth time.
  struct Sample {
    std::uint64_t wanted = 0;
    double squares = 0;  // Of all its elements, estimated.
  };
  void drop_old(std::uint64_t wanted);

  std::atomic<std::uint64_t> wanted_{1};
  std::atomic<double> squares_{-1};  // Of all residuals; below 0: none is known.
  // Of the thread that makes calls.
  std::map<const float*, Sample> samples_;
  std::uint64_t newest_ = 0;  // Sample::wanted of the last one.
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LIVE_RESIDUAL_NORMS_H_
