#include "nccl_plugin/host/derived.h"

#include "nccl_plugin/host/registry.h"
#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin::host {

Result<std::shared_ptr<ncclComm>> make_child(const ncclComm& parent, const ncclConfig_t* config) {
  return make_child(parent, parent.traits().configuration, config);
}

Result<std::shared_ptr<ncclComm>> make_child(const ncclComm& parent, const Configuration& inherited,
                                             const ncclConfig_t* config) {
  RINGPRESS_ASSIGN_OR_RETURN(const Configuration configuration,
                             parse_configuration(config, inherited));
  auto child = std::make_shared<ncclComm>(CommTraits{configuration, parent.traits().device});
  Registry::instance().add(child);
  return child;
}

Status inherit(ncclComm& parent, Communicator& child) {
  CommunicatorState* const state = child.state();
  if (state == nullptr) return Status::ok();
  Status inherited;
  const bool has_left = parent.run_after_calls(
      [&](Communicator& communicator) { inherited = state->inherit(communicator.state()); });
  return has_left ? inherited : state->inherit(nullptr);
}

Status logged(const char* function, const Status& failure) {
  log_line(LogLevel::kError, "%s: %s", function, failure.message().c_str());
  return failure;
}

}  // namespace ringpress::nccl_plugin::host
