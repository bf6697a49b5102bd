#include <cmath>

#include "ringpress/internal/gadget.h"

namespace ringpress::gadget {

double value(const Utility& utility, double iterations) {
  switch (utility.kind) {
    case UtilityKind::kSqrt:
      return utility.scale * std::sqrt(iterations);
    case UtilityKind::kLog:
      return utility.scale * std::log1p(iterations);
    case UtilityKind::kSigmoid:
      return utility.scale / (1 + std::exp(-utility.steepness * (iterations - utility.midpoint)));
    case UtilityKind::kEnergy:
      return utility.scale * iterations - utility.cost * iterations * iterations;
  }
  return 0;
}

}  // namespace ringpress::gadget
