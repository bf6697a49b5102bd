// What becomes of a collective that an exception leaves, such as for want of memory.
#ifndef RING_COLLECTIVE_FAIL_ON_UNWIND_H_
#define RING_COLLECTIVE_FAIL_ON_UNWIND_H_

#include <exception>
#include <string>

#include "ringpress/internal/mesh.h"

namespace ringpress::ring {

/// Fails the mesh when an exception leaves the scope: the peers would wait, and receives that are
/// under way would go into memory that the collective is about to free.
class FailOnUnwind {
 public:
  explicit FailOnUnwind(Mesh& mesh) : mesh_(mesh), exceptions_(std::uncaught_exceptions()) {}
  ~FailOnUnwind() {
    if (std::uncaught_exceptions() == exceptions_) return;
    mesh_.abort({Code::kSystem, "rank " + std::to_string(mesh_.rank()) +
                                    " ran out of memory in the middle of a collective"});
  }
  FailOnUnwind(const FailOnUnwind&) = delete;
  FailOnUnwind& operator=(const FailOnUnwind&) = delete;

 private:
  Mesh& mesh_;
  const int exceptions_;
};

}  // namespace ringpress::ring

#endif  // RING_COLLECTIVE_FAIL_ON_UNWIND_H_
