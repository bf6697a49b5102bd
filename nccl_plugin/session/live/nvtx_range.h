// Calls as ranges of NVTX in a domain of our own, which tools such as Nsight Systems show.
#ifndef NCCL_PLUGIN_SESSION_LIVE_NVTX_RANGE_H_
#define NCCL_PLUGIN_SESSION_LIVE_NVTX_RANGE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "ringpress/internal/call_phases.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin {

/// The domain `ringpress` of this process. Ranges of a thread nest: the last that has begun ends
/// first. Any thread.
class NvtxDomain {
 public:
  /// False: nvtx3/nvToolsExt.h was not there when this was built.
  static bool is_built_in();
  /// Null: no tool is attached that wants ranges, RINGPRESS_NVTX=0, or the build has none. What it
  /// gives lives as long as the process. The first time it loads the library that
  /// NVTX_INJECTION64_PATH names.
  static const NvtxDomain* find(const Settings& settings);

  explicit NvtxDomain(void* handle);
  NvtxDomain(const NvtxDomain&) = delete;
  NvtxDomain& operator=(const NvtxDomain&) = delete;

  /// `name` is copied by the tool. `payload`: shown beside it.
  void begin(const char* name, std::uint64_t payload) const;
  /// `peer` -1: none.
  void begin_phase(CallPhase phase, int peer) const;
  void end() const;

 private:
  void* const handle_;
  std::array<void*, kCallPhases> phases_{};  // Their names, as the tool knows them.
};

/// The ranges of a thread's call: the whole of it, such as "all_reduce 4 MiB", and in that, once it
/// has a codec, how it is made: "all_reduce 4 MiB q4:block=128". `domain` null: nothing.
class NvtxCall {
 public:
  explicit NvtxCall(const NvtxDomain* domain) : domain_(domain) {}
  ~NvtxCall() { end(); }
  NvtxCall(const NvtxCall&) = delete;
  NvtxCall& operator=(const NvtxCall&) = delete;

  /// Somebody looks.
  bool is_shown() const { return domain_ != nullptr; }
  /// In the thread that ends it. Ends the one before. `bytes`: of its tensor; 0: not said.
  void begin(CollectiveKind kind, std::size_t bytes) {
    if (is_shown()) begin_whole(kind, bytes);
  }
  void make_with(const char* codec) {
    if (is_shown()) begin_range(codec);
  }
  void end() {
    if (is_shown()) end_ranges();
  }

  // Within it.
  void begin_phase(CallPhase phase, int peer) const {
    if (ranges_ > 0) domain_->begin_phase(phase, peer);
  }
  void end_phase() const {
    if (ranges_ > 0) domain_->end();
  }

 private:
  void begin_whole(CollectiveKind kind, std::size_t bytes);
  void end_ranges();
  void begin_range(const char* codec);

  const NvtxDomain* const domain_;
  CollectiveKind kind_ = CollectiveKind::kAllReduce;
  std::size_t bytes_ = 0;
  int ranges_ = 0;  // That have begun.
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LIVE_NVTX_RANGE_H_
