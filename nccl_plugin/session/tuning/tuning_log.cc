#include "nccl_plugin/session/tuning/tuning_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "nccl_plugin/errors/warn_once.h"
#include "ringpress/internal/algorithms.h"
#include "ringpress/internal/names.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

const char* event_name(TuningEvent event) {
  switch (event) {
    case TuningEvent::kTried:
      return "tried";
    case TuningEvent::kSettled:
      return "settled";
    case TuningEvent::kDrifted:
      return "drifted";
  }
  return "unknown";
}

/// In microseconds, to a tenth, whatever the program's locale.
std::string microseconds(double seconds) {
  const auto tenths = static_cast<unsigned long long>(seconds * 1e7 + 0.5);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

}  // namespace

std::string tuning_log_header() {
  return "collective,dtype,min_bytes,max_bytes,event,codec,algorithm,chunk_bytes,calls,typical_us,"
         "predicted_us";
}

std::string tuning_log_line(const TunedClass& calls, const TuningNote& note,
                            const std::string& codec) {
  const std::string comma = ",";
  return collective_name(calls.kind) + comma + dtype_name(calls.dtype) + comma +
         std::to_string(calls.bytes) + comma + std::to_string(2 * calls.bytes - 1) + comma +
         event_name(note.event) + ",\"" + codec + "\"," + algorithm_name(note.choice.algorithm) +
         comma + std::to_string(note.choice.chunk_bytes) + comma + std::to_string(note.calls) +
         comma + microseconds(note.seconds) + comma + microseconds(note.predicted_seconds);
}

void append_to_tuning_log(const std::string& path, const std::string& line) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const int file = open(path.c_str(), kFlags, 0600);
  if (file < 0) {
    warn_once("RINGPRESS_TUNING_LOG=" + path + ": " + std::strerror(errno));
    return;
  }
  struct stat found {};
  const bool is_new = fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_size == 0;
  const std::string text = (is_new ? tuning_log_header() + "\n" : "") + line + "\n";
  if (write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    warn_once("RINGPRESS_TUNING_LOG=" + path + ": a line was not written: " + std::strerror(errno));
  }
  close(file);
}

}  // namespace ringpress::nccl_plugin::tuning
