// Ranks of door A's engine on the CUDA device, whose runtime is a stand-in on host memory, over a
// stand-in for NCCL in its streams.
#ifndef TESTS_SUPPORT_CUDA_JOB_H_
#define TESTS_SUPPORT_CUDA_JOB_H_

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_cuda/cuda_runtime_api.h"
#include "tests/support/interposer_job.h"

namespace ringpress::nccl_plugin::interposer {

/// What this thread has asked of NCCL in its group.
struct StreamGroup {
  int depth = 0;
  cudaStream_t stream = nullptr;
  std::vector<std::function<ncclResult_t()>> work;
};
inline thread_local StreamGroup stream_group;

inline ncclResult_t end_group() {
  if (--stream_group.depth > 0 || stream_group.work.empty()) return ncclSuccess;
  const auto run = [work = std::exchange(stream_group.work, {})] {
    EXPECT_EQ(real_nccl.GroupStart(), ncclSuccess);
    for (const auto& one : work) EXPECT_EQ(one(), ncclSuccess);
    EXPECT_EQ(real_nccl.GroupEnd(), ncclSuccess);
  };
  return fakeEnqueue(stream_group.stream, run) == cudaSuccess ? ncclSuccess : ncclSystemError;
}

inline ncclResult_t add(void* stream, std::function<ncclResult_t()> work) {
  ++stream_group.depth;
  stream_group.stream = static_cast<cudaStream_t>(stream);
  stream_group.work.push_back(std::move(work));
  return end_group();
}

/// The stand-in for NCCL, in streams: what is captured runs at each replay.
inline const ringpressRealNccl& nccl_in_streams() {
  static const ringpressRealNccl table = [] {
    ringpressRealNccl made = recording_nccl();
    made.GroupStart = [] { return ++stream_group.depth, ncclSuccess; };
    made.GroupEnd = end_group;
    made.Send = [](const void* data, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                   cudaStream_t stream) {
      ++sends;
      return add(stream, [=] { return real_nccl.Send(data, count, dtype, peer, comm, nullptr); });
    };
    made.Recv = [](void* data, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                   cudaStream_t stream) {
      return add(stream, [=] { return real_nccl.Recv(data, count, dtype, peer, comm, nullptr); });
    };
    made.AllGather = [](const void* send, void* receive, size_t count, ncclDataType_t dtype,
                        ncclComm_t comm, cudaStream_t stream) {
      return add(stream,
                 [=] { return real_nccl.AllGather(send, receive, count, dtype, comm, nullptr); });
    };
    made.AllReduce = [](const void* send, void* receive, size_t count, ncclDataType_t dtype,
                        ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
      ++all_reduces;
      return add(stream, [=] {
        return real_nccl.AllReduce(send, receive, count, dtype, op, comm, nullptr);
      });
    };
    return made;
  }();
  return table;
}

inline Settings cuda_settings(std::vector<std::pair<std::string, std::string>> more = {}) {
  more.insert(more.begin(), {"RINGPRESS_BACKEND", "cuda"});
  return make_settings(more);
}

struct CudaJob : Job {
  explicit CudaJob(const Settings& settings) : Job(settings, nccl_in_streams()) {}

  ncclResult_t reduce(ncclComm_t comm, std::vector<float>& values, cudaStream_t stream,
                      ncclRedOp_t op = ncclSum) {
    return engine.reduce({CollectiveKind::kAllReduce, values.data(), values.data(), values.size(),
                          ncclFloat32, op, comm, stream});
  }
};

inline cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  return stream;
}

}  // namespace ringpress::nccl_plugin::interposer

#endif  // TESTS_SUPPORT_CUDA_JOB_H_
