// What people read of decisions. Programs compare reasons, never these texts.
#include <string>

#include "ringpress/internal/call_class.h"
#include "ringpress/internal/decision.h"

namespace ringpress {
namespace {

/// Of a call that is not known to be a gradient.
const char* text_of(CallClass call_class) {
  switch (call_class) {
    case CallClass::kUnknown:
    case CallClass::kGradient:
      break;
    case CallClass::kAlike:
      return "many calls of the step are alike: it may be of activations";
    case CallClass::kBesideMaxima:
      return "the step takes maxima of such values: it may be of activations";
    case CallClass::kBesideGathers:
      return "the step alternates between reduce-scatters and all-gathers: it may be of "
             "activations";
    case CallClass::kNamed:
      return "the communicator's name says that it is not for gradients";
    case CallClass::kUntold:
      return "NCCL does not tell which tensor it is of: it may be of no gradient";
    case CallClass::kUnsaid:
      return "its buffers and pauses are not known to be those of gradients";
    case CallClass::kPauses:
      return "no long pause is known between the steps that it is of";
    case CallClass::kBuffers:
      return "its buffers change from step to step, or other calls of the step have them too";
    case CallClass::kValues:
      return "its values have one sign, or hardly change from step to step";
  }
  return "not known to be a gradient";
}

std::string always_exact(const char* what) {
  return std::string(what) + " is always exact";
}

}  // namespace

std::string to_text(const WhyExact& why) {
  const std::string codec(why.codec);
  const auto number = std::to_string(why.number);
  switch (why.reason) {
    case ExactReason::kNone:
      return "";
    case ExactReason::kCollective:
      return always_exact(collective_name(static_cast<CollectiveKind>(why.number)));
    case ExactReason::kType:
      return always_exact(dtype_name(static_cast<DType>(why.number)));
    case ExactReason::kOperator:
      return always_exact(reduce_op_name(static_cast<ReduceOp>(why.number)));
    case ExactReason::kPreMultiplied:
      return "pre-multiplied sums are always exact";
    case ExactReason::kSingleRank:
      return "a single rank sends nothing";
    case ExactReason::kOff:
      return "RINGPRESS=off";
    case ExactReason::kDeniedByRule:
      return "line " + number + " of RINGPRESS_RULES";
    case ExactReason::kExactByCall:
      return "the call's own option is that it stays exact";
    case ExactReason::kCodecNone:
      return "RINGPRESS_CODEC=none";
    case ExactReason::kBudgetNone:
      return "RINGPRESS_BUDGET=none";
    case ExactReason::kBudgetUnmet:
      return "each codec of automatic mode loses more than RINGPRESS_BUDGET allows";
    case ExactReason::kLosesTooMuch:
      return codec + " was measured to lose more than RINGPRESS_BUDGET allows";
    case ExactReason::kAllReducesOnly:
      return codec + " compresses all-reduces only";
    case ExactReason::kTooSmall:
      return "smaller than RINGPRESS_MIN_BYTES";
    case ExactReason::kOneHost:
      return "all ranks share one host";
    case ExactReason::kNotRecurred:
      return "has not recurred yet";
    case ExactReason::kNoGradient:
      return text_of(static_cast<CallClass>(why.number));
    case ExactReason::kObserved:
      return "RINGPRESS=observe: would be " + codec;
    case ExactReason::kStepNoShorter:
      return "the step is no shorter if it is compressed";
    case ExactReason::kNothingGained:
      return "no codec within the budget made it quicker";
    case ExactReason::kTrial:
      return "made exactly to see what that takes";
    case ExactReason::kWarmUp:
      return "RINGPRESS_WARMUP_STEPS: the first " + number + " steps go without " + codec;
    case ExactReason::kPutOff:
      return "put off: RINGPRESS_LAZY";
    case ExactReason::kSavesNothing:
      return codec + " makes " + dtype_name(static_cast<DType>(why.number)) + " no smaller";
    case ExactReason::kAgreesOnSums:
      return codec + " agrees on sums: all-gathers are exact";
    case ExactReason::kNotInStreams:
      return codec + " cannot be used in streams";
    case ExactReason::kUnknownEnd:
      return "not known where the tensor ends";
    case ExactReason::kUnknownTensor:
      return "not known which tensor it is, and " + codec + " needs error feedback";
    case ExactReason::kProjectsWholeTensors:
      return codec + " projects whole tensors, not pieces";
    case ExactReason::kNoMemoryForTensor:
      return "a rank has no memory for a tensor of that size";
    case ExactReason::kNoMemoryForGraph:
      return "a rank has no memory for its graph";
    case ExactReason::kNoMemoryOnRank:
      return "rank " + number + " has no memory for it";
    case ExactReason::kCannotBegin:
      return codec;
    case ExactReason::kCaptured:
      return "its stream is being captured";
    case ExactReason::kGraphRepeatsBits:
      return "a graph would repeat its random bits";
    case ExactReason::kNonblocking:
      return kNonblockingText;
  }
  return "unknown reason";
}

}  // namespace ringpress
