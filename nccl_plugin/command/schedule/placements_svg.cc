#include "nccl_plugin/command/schedule/placements_svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "nccl_plugin/command/schedule/svg.h"

namespace ringpress::nccl_plugin::command {
namespace {

constexpr double kLeft = 110, kTop = 30, kWidth = 860, kRow = 22, kGap = 3, kRackGap = 10;

/// A job on a server, as long as it has the same part of it.
struct Stay {
  std::size_t begin = 0, end = 0;  // Slots.
};
/// Server, job, the first resource taken by jobs below it and by itself.
using Where = std::tuple<std::size_t, std::size_t, std::uint64_t, std::uint64_t>;

std::vector<std::pair<Where, Stay>> stays_of(const std::vector<gadget::Job>& jobs,
                                             const gadget::Schedule& schedule) {
  std::vector<std::pair<Where, Stay>> ended;
  std::map<Where, Stay> open;
  for (std::size_t slot = 0; slot <= schedule.slots.size(); ++slot) {
    std::map<Where, Stay> now;
    std::map<std::size_t, std::uint64_t> taken;  // Of each server.
    const bool is_over = slot == schedule.slots.size();
    for (const gadget::Ring& ring :
         is_over ? std::vector<gadget::Ring>() : schedule.slots[slot].rings) {
      for (const gadget::Share& share : ring.shares) {
        const std::uint64_t amount = share.workers * jobs[ring.job].demand.worker[0];
        const Where where = {share.server, ring.job, taken[share.server], amount};
        taken[share.server] += amount;
        const auto before = open.find(where);
        now[where] = {before == open.end() ? slot : before->second.begin, slot + 1};
        if (before != open.end()) open.erase(before);
      }
    }
    ended.insert(ended.end(), open.begin(), open.end());
    open = std::move(now);
  }
  return ended;
}

/// Names the servers, and gives the upper edge of each one's row.
std::vector<double> draw_servers(const gadget::Cluster& cluster, double* bottom, Svg* svg) {
  std::vector<double> tops(cluster.servers.size());
  double y = kTop;
  for (std::size_t rack = 0; rack < cluster.racks.size(); ++rack) {
    for (std::size_t s = 0; s < cluster.servers.size(); ++s) {
      const gadget::Server& server = cluster.servers[s];
      if (server.rack != rack) continue;
      tops[s] = y;
      svg->box(kLeft, y, kWidth, kRow, "#f0f0f0", server.name);
      svg->text(kLeft - 6, y + 15, fmt::format("{}, {}", cluster.racks[rack].name, server.name),
                "end");
      y += kRow + kGap;
    }
    y += kRackGap;
  }
  *bottom = y;
  return tops;
}

}  // namespace

std::string draw_placements(const gadget::Cluster& cluster, const std::vector<gadget::Job>& jobs,
                            const gadget::Schedule& schedule) {
  Svg svg;
  const auto slots = static_cast<double>(std::max<std::size_t>(1, schedule.slots.size()));
  svg.text(kLeft, 16, fmt::format("{}; {} jobs", cluster.name, jobs.size()));
  double bottom = 0;
  const std::vector<double> tops = draw_servers(cluster, &bottom, &svg);
  for (const auto& [where, stay] : stays_of(jobs, schedule)) {
    const auto& [server, job, below, amount] = where;
    const double scale = kRow / static_cast<double>(cluster.servers[server].capacity[0]);
    const auto begin = static_cast<double>(stay.begin), end = static_cast<double>(stay.end);
    svg.box(kLeft + kWidth * begin / slots, tops[server] + scale * static_cast<double>(below),
            kWidth * (end - begin) / slots, scale * static_cast<double>(amount), colour_of(job),
            fmt::format("{}, slots {} to {}", jobs[job].name, stay.begin, stay.end - 1));
  }
  const auto step = std::max<std::size_t>(1, schedule.slots.size() / 10);
  for (std::size_t slot = 0; slot <= schedule.slots.size(); slot += step) {
    svg.text(kLeft + kWidth * static_cast<double>(slot) / slots, bottom + 10, std::to_string(slot),
             "middle");
  }
  svg.text(kLeft + kWidth, bottom + 26, "slots", "end");
  return svg.finish(kLeft + kWidth + 30, bottom + 36);
}

}  // namespace ringpress::nccl_plugin::command
