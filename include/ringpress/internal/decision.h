// What is decided on a call: compressed or not, with which codec and by which algorithm, and who
// has said so. A decision is a value: each stage of the chain that decides (nccl_plugin/session/
// decision_chain.h) takes one and returns another.
#ifndef RINGPRESS_INTERNAL_DECISION_H_
#define RINGPRESS_INTERNAL_DECISION_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ringpress/internal/types.h"

namespace ringpress {

/// The codec of a call that is not compressed.
inline constexpr std::string_view kNoCodec = "none";
inline bool is_no_codec(std::string_view specification) {
  return specification == kNoCodec;
}
/// What RINGPRESS=lossless takes instead of any lossy codec. It leaves nothing for error feedback.
inline constexpr std::string_view kLosslessCodec = "lossless";

/// Why a call is exact. Its text is made by to_text() when somebody reads it.
enum class ExactReason : std::uint8_t {
  kNone,  // It is compressed.
  // What the call is. WhyExact::number: the CollectiveKind, the DType or the ReduceOp.
  kCollective,
  kType,
  kOperator,
  kPreMultiplied,
  kSingleRank,
  // What the user says. WhyExact::number: the rule's line.
  kOff,
  kDeniedByRule,
  kExactByCall,  // An option of the call.
  kCodecNone,
  kBudgetNone,
  kBudgetUnmet,     // Every codec loses more than the error that was given.
  kAllReducesOnly,  // WhyExact::codec compresses nothing else.
  kTooSmall,
  kOneHost,
  kNotRecurred,
  kNoGradient,  // As far as is known. WhyExact::number: the CallClass.
  kObserved,    // WhyExact::codec would have compressed it.
  // What earlier calls have shown.
  kStepNoShorter,
  kNothingGained,
  kTrial,
  kLosesTooMuch,  // WhyExact::codec, as was measured, for what the budget allows.
  kWarmUp,        // WhyExact::codec will compress it; number: of steps.
  kPutOff,
  // What the codec can do. WhyExact::codec: the codec.
  kSavesNothing,  // WhyExact::number: the DType.
  kAgreesOnSums,
  kNotInStreams,
  kUnknownEnd,
  kUnknownTensor,
  kProjectsWholeTensors,
  // What a stream or a device has room for. WhyExact::number: the rank that has no memory.
  kNoMemoryForTensor,
  kNoMemoryForGraph,
  kNoMemoryOnRank,
  kCannotBegin,  // WhyExact::codec: what went wrong, said by an error.
  kCaptured,
  kGraphRepeatsBits,
  // What its communicator is.
  kNonblocking,
};

/// The reason and what it is about.
struct WhyExact {
  ExactReason reason = ExactReason::kNone;
  std::uint32_t number = 0;
  std::string_view codec;  // Lives as long as that of a Decision.

  auto operator<=>(const WhyExact&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// The text of kNonblocking: other ranks hear it, too.
inline constexpr const char* kNonblockingText = "nonblocking communicators are not compressed";
/// For people: in statistics, logs and answers. Empty: the call is compressed.
std::string to_text(const WhyExact& why);

/// Who has chosen.
enum class Origin : std::uint8_t {
  kSetting,    // What holds for all calls.
  kRule,       // A line of RINGPRESS_RULES: nothing else is tried.
  kAutomatic,  // RINGPRESS_CODEC=auto, or RINGPRESS_ALGO=auto.
  kStep,       // The plan for the training step.
  kWarmUp,     // The first steps of a training.
  kCall,       // An option of the call itself: nothing else is tried.
};

/// Small and copied freely. `codec` and `why.codec` are names in storage that outlives the calls of
/// the communicator and never moves: the planner's copy of the settings and rules, options of
/// calls, the calibration (made once), the family of levels, or the communicator's table of codecs.
struct Decision {
  std::string_view codec = kNoCodec;  // Specification for the codec factory.
  std::size_t chunk_elements = 0;     // 0: the collective chooses.
  WhyExact why;
  Algorithm algorithm = Algorithm::kSra;
  Origin codec_origin = Origin::kSetting;
  Origin algorithm_origin = Origin::kSetting;
  bool error_feedback = false;
  bool has_scales = false;  // Of coordinates, once they are seen to help.

  bool is_exact() const { return is_no_codec(codec); }
  /// A call may be exact and name the codec that it would have: what is kept of its tensor has its
  /// place.
  bool is_compressed() const { return !is_exact() && why.reason == ExactReason::kNone; }
  bool is_by_rule() const { return codec_origin == Origin::kRule; }
  /// Somebody has said so of this very call: nothing else is tried.
  bool is_given() const { return is_by_rule() || codec_origin == Origin::kCall; }
  /// RINGPRESS_CODEC=auto: it would be compressed if it had come before.
  bool waits_for_recurrence() const { return why.reason == ExactReason::kNotRecurred; }
  /// The user's rule, or the call's own option, is that it stays as it is: nor is it put off.
  bool is_denied() const {
    return why.reason == ExactReason::kDeniedByRule || why.reason == ExactReason::kExactByCall;
  }
  bool is_observed() const { return why.reason == ExactReason::kObserved; }
};

/// What becomes of a call that is only observed if it is made; another one as it is.
inline Decision if_made(Decision decision) {
  if (!decision.is_observed()) return decision;
  decision.codec = decision.why.codec;
  decision.why = {};
  return decision;
}

/// The same call without a codec, for now.
inline Decision left_exact(Decision decision, ExactReason reason) {
  decision.codec = kNoCodec;
  decision.why = {reason, 0, {}};
  decision.error_feedback = false;
  decision.has_scales = false;
  return decision;
}

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_DECISION_H_
