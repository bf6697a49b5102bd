#include "nccl_plugin/session/live/prometheus_page.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>

#include "nccl_plugin/errors/firewall.h"
#include "nccl_plugin/errors/warn_once.h"
#include "nccl_plugin/session/live/json_text.h"

namespace ringpress::nccl_plugin {
namespace {

using LabelList = std::vector<std::pair<const char*, std::string>>;

/// In a value of a label, three characters are written otherwise. A page of which one value is no
/// UTF-8 is refused as a whole.
std::string label_value(const std::string& text) {
  std::string value;
  for (const char c : utf8(text)) {
    if (c == '\\' || c == '"') value += '\\';
    value += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return value;
}

/// Samples of one name, which stand together.
class Family {
 public:
  Family(std::string name, const char* type, const char* help) : name_("ringpress_" + name) {
    text_ = "# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " " + type + "\n";
  }

  void add(const LiveIdentity& identity, const LabelList& more, const std::string& value) {
    LabelList labels = {{"host", live_host()},
                        {"rank", std::to_string(identity.rank)},
                        {"comm", identity.comm},
                        {"door", identity.door}};
    labels.insert(labels.end(), more.begin(), more.end());
    std::string list;
    for (const auto& [label, text] : labels) {
      list += (list.empty() ? "" : ",") + std::string(label) + "=\"" + label_value(text) + "\"";
    }
    // Communicators of one name and rank would be one series twice, which no reader takes.
    if (std::find(lists_.begin(), lists_.end(), list) != lists_.end()) return;
    text_ += name_ + "{" + list + "} " + value + "\n";
    lists_.push_back(list);
  }
  void add(const LiveIdentity& identity, const LabelList& more, std::uint64_t value) {
    add(identity, more, std::to_string(value));
  }
  void add(const LiveIdentity& identity, const LabelList& more, double value) {
    add(identity, more, json_number(value));
  }

  /// Empty without samples.
  std::string text() const { return lists_.empty() ? std::string() : text_; }

 private:
  const std::string name_;
  std::string text_;
  std::vector<std::string> lists_;
};

using Sources = std::vector<PrometheusSource>;

std::string of_totals(const Sources& sources) {
  struct Counter {
    const char* name;
    const char* type;
    const char* help;
    std::uint64_t Statistics::*value;
  };
  static constexpr Counter kCounters[] = {
      {"calls_total", "counter", "Calls that have ended.", &Statistics::calls},
      {"compressed_calls_total", "counter", "Of these, compressed ones.",
       &Statistics::compressed_calls},
      {"raw_bytes_total", "counter", "Bytes that this rank would have sent uncompressed.",
       &Statistics::raw_bytes},
      {"wire_bytes_total", "counter", "Bytes that this rank has sent.", &Statistics::wire_bytes},
      {"residual_bytes", "gauge", "Memory for error feedback.", &Statistics::residual_bytes}};
  std::string page;
  for (const Counter& counter : kCounters) {
    Family family(counter.name, counter.type, counter.help);
    for (const PrometheusSource& source : sources) {
      family.add(source.identity, {}, source.total.*counter.value);
    }
    page += family.text();
  }
  return page;
}

std::string of_codecs(const Sources& sources) {
  Family calls("codec_calls_total", "counter", "Calls that have ended, by codec.");
  Family raw("codec_raw_bytes_total", "counter", "As ringpress_raw_bytes_total, by codec.");
  Family wire("codec_wire_bytes_total", "counter", "Bytes sent during calls, by codec.");
  for (const PrometheusSource& source : sources) {
    for (const auto& [codec, of_codec] : source.total.by_codec) {
      const LabelList label = {{"codec", codec}};
      calls.add(source.identity, label, of_codec.calls);
      raw.add(source.identity, label, of_codec.raw_bytes);
      wire.add(source.identity, label, of_codec.wire_bytes);
    }
  }
  return calls.text() + raw.text() + wire.text();
}

std::string of_reasons(const Sources& sources) {
  Family family("exact_calls_total", "counter", "Calls that were not compressed, by reason.");
  for (const PrometheusSource& source : sources) {
    for (const auto& [reason, count] : source.total.exact_calls) {
      family.add(source.identity, {{"reason", reason}}, count);
    }
  }
  return family.text();
}

std::string of_phases(const Sources& sources) {
  Family family("phase_seconds_total", "counter", "Time in calls, by what was done.");
  for (const PrometheusSource& source : sources) {
    if (!source.total.phases) continue;
    for (std::size_t phase = 0; phase < kCallPhases; ++phase) {
      family.add(source.identity, {{"phase", phase_name(static_cast<CallPhase>(phase))}},
                 static_cast<double>((*source.total.phases)[phase]) * 1e-9);
    }
  }
  return family.text();
}

std::string of_errors(const Sources& sources) {
  Family last("error", "gauge", "Relative error of the last sample of calls of a size.");
  Family worst("worst_error", "gauge", "The largest of all samples.");
  Family norm("residual_norm", "gauge", "l2 norm of all residuals, estimated from samples.");
  for (const PrometheusSource& source : sources) {
    for (const MeasuredError& error : source.total.errors) {
      const LabelList shape = {{"count", std::to_string(error.count)},
                               {"type", dtype_name(error.dtype)}};
      last.add(source.identity, shape, error.last);
      worst.add(source.identity, shape, error.worst);
    }
    if (source.total.residual_norm) norm.add(source.identity, {}, *source.total.residual_norm);
  }
  return last.text() + worst.text() + norm.text();
}

/// By which an alert finds a job that hangs.
std::string of_activities(const Sources& sources) {
  Family family("call_in_progress_seconds", "gauge",
                "How long the oldest call that is under way has taken; 0: there is none.");
  const auto now = CallWatch::Clock::now();
  for (const PrometheusSource& source : sources) {
    if (source.activities.empty()) continue;
    double longest = 0;
    for (const CallWatch::Activity& activity : source.activities) {
      const double seconds = std::chrono::duration<double>(now - activity.since).count();
      if (activity.call) longest = std::max(longest, seconds);
    }
    family.add(source.identity, {}, longest);
  }
  return family.text();
}

/// An error number, or 0. The name of the file that is renamed does not end in .prom: node_exporter
/// does not read it.
int replace_file(const std::string& path, const std::string& page) {
  struct stat found {};
  if (lstat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) return EEXIST;
  const std::string made = path + "." + std::to_string(getpid());
  unlink(made.c_str());  // Of a process of that number that was killed.
  const int file = open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (file < 0) return errno;
  const ssize_t written = write(file, page.data(), page.size());
  int error = written < 0 ? errno : 0;
  if (error == 0 && static_cast<std::size_t>(written) < page.size()) error = ENOSPC;
  close(file);
  if (error == 0 && std::rename(made.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) unlink(made.c_str());
  return error;
}

}  // namespace

std::string prometheus_page(const std::vector<PrometheusSource>& sources) {
  return of_totals(sources) + of_codecs(sources) + of_reasons(sources) + of_phases(sources) +
         of_errors(sources) + of_activities(sources);
}

void write_prometheus_page(const std::string& path, const std::string& page) noexcept {
  static_cast<void>(catch_all([&] {
    const int error = replace_file(path, page);
    if (error == EEXIST) {
      warn_once("RINGPRESS_PROMETHEUS=" + path + ": what is there is no regular file");
    } else if (error != 0) {
      warn_once("RINGPRESS_PROMETHEUS=" + path + ": " + std::strerror(error));
    }
    return Status::ok();
  }));
}

}  // namespace ringpress::nccl_plugin
