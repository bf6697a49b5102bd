// The only header of tuner/ that other folders include.
#ifndef TUNER_FACTORY_H_
#define TUNER_FACTORY_H_

#include <memory>

#include "ringpress/planner.h"
#include "ringpress/settings.h"

namespace ringpress::tuner {

/// A planner that follows the settings. Never null.
std::unique_ptr<Planner> make_planner(const Settings& settings);

}  // namespace ringpress::tuner

#endif  // TUNER_FACTORY_H_
