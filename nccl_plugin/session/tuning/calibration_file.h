// What was measured, kept for the next communicator of the same ranks: a small text file in a
// folder of the user's.
//
//   ringpress calibration 3
//   of VERSION RANKS RANKS_PER_HOST BUDGET HOSTS      what it was measured for
//   link LATENCY_SECONDS BYTES_PER_SECOND
//   inside LATENCY_SECONDS BYTES_PER_SECOND      of hosts of several ranks
//   codec TYPE NAME RATIO ERROR, then start and seconds a byte of encode, decode and hop
//   end CHECKSUM                       of all lines before, XXH3-64 in hexadecimal
#ifndef NCCL_PLUGIN_SESSION_TUNING_CALIBRATION_FILE_H_
#define NCCL_PLUGIN_SESSION_TUNING_CALIBRATION_FILE_H_

#include <string>
#include <string_view>

#include "nccl_plugin/session/tuning/calibration.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::tuning {

/// What a calibration is of: written into the file, and into its name.
struct CalibrationKey {
  int ranks = 0;
  int ranks_per_host = 1;  // As count_ranks_per_host() has it.
  std::string budget;
  std::string hosts;  // Of all ranks, in short.

  std::string text() const;
};

/// `text` as the file has it. Never fails for what calibrate() gives.
std::string write_calibrations(const Calibrations& calibrations, const CalibrationKey& key);

/// kCorrupt says what is wrong: cut short, changed, of another version or other ranks.
Result<Calibrations> read_calibrations(std::string_view text, const CalibrationKey& key);

/// Where it is kept: in RINGPRESS_CACHE, or else in the user's cache folder. Empty: nowhere.
std::string calibration_path(const CallSettings& settings, const CalibrationKey& key);

/// The text of the file; empty if there is none. kSystem: others may write it, it is not this
/// user's, or it cannot be read.
Result<std::string> load_calibration_file(const std::string& path);

/// Writes a new file and moves it to its place, making the folder if need be.
Status save_calibration_file(const std::string& path, const std::string& text);

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_SESSION_TUNING_CALIBRATION_FILE_H_
