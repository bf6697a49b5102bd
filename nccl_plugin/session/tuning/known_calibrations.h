// How quick a communicator's links and codecs are: measured once, unless a file has it.
#ifndef NCCL_PLUGIN_SESSION_TUNING_KNOWN_CALIBRATIONS_H_
#define NCCL_PLUGIN_SESSION_TUNING_KNOWN_CALIBRATIONS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "nccl_plugin/session/state/state_bytes.h"
#include "nccl_plugin/session/tuning/calibration.h"
#include "nccl_plugin/session/tuning/calibration_file.h"
#include "nccl_plugin/session/tuning/peers.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/tuning.h"

namespace ringpress::nccl_plugin::tuning {

/// Of one communicator, equal on all ranks. One thread at a time.
class KnownCalibrations {
 public:
  /// `settings` and `peers` outlive this.
  KnownCalibrations(const Settings& settings, Peers& peers);

  /// Takes some tenths of a second, the first time, unless the cache has it. Collective.
  Status find();
  bool are_found() const { return found_ != nullptr; }

  // Of those that were found:
  const Calibration& of(DType dtype) const;
  /// Of calls of so many bytes.
  CallShape shape_of(std::size_t bytes) const { return {bytes, peers_.size(), ranks_per_host_}; }
  /// What the file says of the link is no longer so: the next communicator measures.
  void drop_file() const;

  /// What this rank has sent to find them, once that is known. From any thread.
  std::uint64_t sent_bytes() const { return sent_bytes_; }

  void save(StateWriter& to) const;
  /// Of what `from` fails at, nothing is to be used.
  void load(StateReader& from);
  void adopt(KnownCalibrations&& loaded);

 private:
  Status ask_or_calibrate();
  Result<std::string> ask_cache(const CalibrationKey& key);
  void keep(const CalibrationKey& key) const;
  CalibrationKey key_in_state() const;

  const CallSettings& settings_;
  const std::string interfaces_;  // That are used: part of what is known of the links.
  Peers& peers_;
  std::unique_ptr<Calibrations> found_;  // Made once: decisions have names of its codecs.
  int ranks_per_host_ = 1;               // That they are of.
  std::string cache_path_;               // Where they are kept, if anywhere.
  std::atomic<std::uint64_t> sent_bytes_{0};
};

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_SESSION_TUNING_KNOWN_CALIBRATIONS_H_
