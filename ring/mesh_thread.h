// The progress thread of a mesh: moves the bytes of large transfers while the caller computes.
#ifndef RING_MESH_THREAD_H_
#define RING_MESH_THREAD_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "ring/transport/common/reactor.h"

namespace ringpress::ring {

class MeshThread {
 public:
  /// Sleeps until arm(), then calls `move_bytes` again and again until that says that it is not
  /// needed now.
  MeshThread(transport::Reactor& reactor, std::function<bool()> move_bytes);
  ~MeshThread();
  MeshThread(const MeshThread&) = delete;
  MeshThread& operator=(const MeshThread&) = delete;

  void arm();

 private:
  void run();

  transport::Reactor& reactor_;
  const std::function<bool()> move_bytes_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool armed_ = false;
  bool stop_ = false;
  std::thread thread_{[this] { run(); }};
};

}  // namespace ringpress::ring

#endif  // RING_MESH_THREAD_H_
