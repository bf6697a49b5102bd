// Watches what compressed all-reduces lose: now and then the exact sum of a sample of a call's
// values is compared with the call's result. Where that is more than RINGPRESS_BUDGET allows, calls
// of that shape get more bits.
//
// The exact sums and the results are the same on all ranks, and calls are counted alike, so all
// that is decided here is the same everywhere: nothing is voted on. With error feedback the result
// of a call has in it what earlier ones left over, and counts with that: what is measured is how
// far one step's sum is off.
#ifndef NCCL_PLUGIN_SESSION_CALLS_ERROR_GUARD_H_
#define NCCL_PLUGIN_SESSION_CALLS_ERROR_GUARD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nccl_plugin/session/calls/by_shape.h"
#include "nccl_plugin/session/calls/tensor_call.h"
#include "nccl_plugin/session/state/state_bytes.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/planner.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin {

/// What a call may lose, relative to the exact sum, in the l2 norm; 0: calls are only watched, as
/// the user names a codec, or one whose usual loss is not known.
double allowed_error(const CallSettings& settings);

/// `specification` with so many bits more, 8 at most, where it is of the family q2 to q8; empty: it
/// has as many as that, or is of another one.
std::string with_more_bits(std::string_view specification, int more);

/// Of one communicator. One thread at a time.
class ErrorGuard {
 public:
  static constexpr std::size_t kSampleValues = 1024;
  /// A shape's first look, and how many calls lie between two at most.
  static constexpr std::uint64_t kFirstLook = 16;
  static constexpr std::uint64_t kMostBetween = 1024;

  explicit ErrorGuard(double allowed) : allowed_(allowed) {}

  /// What calls of that shape have instead of the codec that was chosen, or that. Empty: they are
  /// exact for now. Lives as long as this. Counts the call.
  std::string_view codec_for(const TensorCall& call, std::string_view chosen);

  /// The call that is compressed next, on a tensor or a piece of one: true if it is to be looked
  /// at.
  bool is_due(const TensorCall& call);
  /// Then: a sample of this rank's values, to be added up exactly over all ranks.
  std::span<float> take(const TensorCall& call, const void* values);
  /// Then, when take()'s span has the sums and the call has ended: compares them with the result.
  /// `codec`: of the call. Not empty: a line for people on what changes now. `is_guarded` false:
  /// codec_for() was not asked for it, and it tells nothing of what to do.
  std::string judge(const TensorCall& call, const void* result, int ranks, std::string_view codec,
                    bool is_guarded);

  /// Of the shapes that were looked at, those with the largest tensors first. Allocates only where
  /// `to` has no room for a shape that is new.
  void list_errors(std::size_t most, std::vector<MeasuredError>* to) const;

  void save(StateWriter& to) const;
  /// Of what `from` fails at, nothing is to be used.
  void load(StateReader& from);
  /// Goes on with what `loaded` has seen. What codec_for() has returned stays.
  void adopt(ErrorGuard&& loaded) { shapes_ = std::move(loaded.shapes_); }

 private:
  struct Watched {
    std::uint64_t calls = 0;
    std::uint64_t next_look = kFirstLook;
    std::uint64_t looks = 0;
    double last = 0;
    double worst = 0;
    double squares = 0;        // Of all looks.
    std::uint32_t more = 0;    // Bits.
    std::uint32_t good = 0;    // Looks in a row that would do with one bit less.
    std::uint64_t exact = 0;   // Calls from now on.
    std::uint64_t pauses = 0;  // That were made exact before.
  };
  // Bits beyond which a call is exact.
  static constexpr std::uint32_t kMostMore = 6;

  static std::string describe(const TensorCall& call, std::string_view codec, double error);
  std::string raise(const TensorCall& call, std::string_view codec, double error,
                    Watched* watched) const;

  const double allowed_;
  ByShape<Watched> shapes_;
  std::map<std::pair<std::string, std::uint32_t>, std::string> names_;  // Never moved.
  // Of the call that is looked at: kSampleValues each.
  std::vector<float> sample_;
  std::vector<float> found_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_ERROR_GUARD_H_
