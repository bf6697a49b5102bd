// The state of a communicator over a mesh: what it keeps from call to call, in a file.
//
//   rank, ranks, the lines that ranks compare   of whom it is
//   what is equal on all ranks                  Mesh::root_word(), by which files of another run
//                                               are told; numbers of calls, by which random bits
//                                               are drawn; the sequence of shapes; what is tuned;
//                                               levels
//   what is a rank's own                        the sequence of buffers, residuals
//   coordinate scales                           equal on all ranks, who compare a hash of them
//
// Each part writes and reads its own bytes (state/state_bytes.h).
#ifndef NCCL_PLUGIN_SESSION_MESH_MESH_STATE_H_
#define NCCL_PLUGIN_SESSION_MESH_MESH_STATE_H_

#include <string>

#include "nccl_plugin/session/mesh/call_maker.h"
#include "nccl_plugin/session/mesh/mesh_session.h"
#include "nccl_plugin/session/state/state_bytes.h"

namespace ringpress::nccl_plugin {

/// Of one communicator, between its calls.
class MeshState final : public CommunicatorState {
 public:
  MeshState(MeshSession& session, CallMaker& calls) : session_(session), calls_(calls) {}

  Status save(const std::string& path) const override;
  Result<StateLoad> load(const std::string& path) override;
  Status inherit(const CommunicatorState* parent) override;
  Status begin_among_heirs() override;
  void give_back_memory() override;
  MemoryUse memory_use() const override;

 private:
  struct Loaded;

  void write_owner(StateWriter& to) const;
  void write_shared(StateWriter& to) const;
  void write_own(StateWriter& to) const;
  void read_owner(StateReader& from, Loaded* loaded) const;
  void read_shared(StateReader& from, Loaded* loaded) const;
  static void read_own(StateReader& from, StateFrom whose, Loaded* loaded);
  void read_file(const std::string& path, Loaded* loaded) const;
  template <typename Read>
  static void read_safely(Loaded* loaded, Read&& read);
  void read_parent(const MeshState* parent, Loaded* loaded) const;
  Result<StateLoad> agree(const Loaded& loaded);
  Status take_over(Loaded&& loaded);
  void adopt(Loaded&& loaded);
  void adopt_own(Loaded&& loaded);

  MeshSession& session_;
  CallMaker& calls_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_MESH_MESH_STATE_H_
