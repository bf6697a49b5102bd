// The page of RINGPRESS_PROMETHEUS, in Prometheus's text format, for node_exporter.
#ifndef NCCL_PLUGIN_SESSION_LIVE_PROMETHEUS_PAGE_H_
#define NCCL_PLUGIN_SESSION_LIVE_PROMETHEUS_PAGE_H_

#include <string>
#include <vector>

#include "nccl_plugin/session/live/call_watch.h"
#include "nccl_plugin/session/live/live_line.h"
#include "ringpress/internal/communicator.h"

namespace ringpress::nccl_plugin {

/// A communicator.
struct PrometheusSource {
  LiveIdentity identity;
  Statistics total;
  std::vector<CallWatch::Activity> activities;  // Of its workers; none: they are not followed.
};

std::string prometheus_page(const std::vector<PrometheusSource>& sources);

/// Puts the page in the place of the file, as a whole: whoever reads sees the one before or this
/// one. All may read it, as node_exporter is another user. What is there and is no file stays.
/// A failure is one warning.
void write_prometheus_page(const std::string& path, const std::string& page) noexcept;

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LIVE_PROMETHEUS_PAGE_H_
