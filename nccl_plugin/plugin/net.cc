#include "nccl_plugin/plugin/net.h"

#include <atomic>

#include "nccl_plugin/plugin/device.h"
#include "nccl_plugin/plugin/report.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

std::atomic<bool> is_ready{false};

}  // namespace

Status net_init(abi::Logger logger) {
  set_logger(logger);
  is_ready = true;
  return Status::ok();
}

int net_devices() {
  return is_ready ? static_cast<int>(devices().size()) : 0;
}

}  // namespace ringpress::nccl_plugin::plugin
