// Ranks of door A's engine in one process, over a stand-in for NVIDIA's library whose all-reduces
// and sends are counted.
#ifndef TESTS_SUPPORT_INTERPOSER_JOB_H_
#define TESTS_SUPPORT_INTERPOSER_JOB_H_

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_plugin/interposer/engine.h"

namespace ringpress::nccl_plugin::interposer {

inline std::atomic<int> all_reduces{0};
inline std::atomic<int> sends{0};
inline ringpressRealNccl real_nccl;

inline ncclResult_t counting_all_reduce(const void* send, void* receive, size_t count,
                                        ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,
                                        cudaStream_t stream) {
  ++all_reduces;
  return real_nccl.AllReduce(send, receive, count, dtype, op, comm, stream);
}
inline ncclResult_t counting_send(const void* send, size_t count, ncclDataType_t dtype, int peer,
                                  ncclComm_t comm, cudaStream_t stream) {
  ++sends;
  return real_nccl.Send(send, count, dtype, peer, comm, stream);
}

/// The stand-in's functions, with those that tell the two ways apart counted.
inline const ringpressRealNccl& recording_nccl() {
  static const ringpressRealNccl table = [] {
    void* library = dlopen(FAKE_NCCL, RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library, nullptr) << dlerror();
    real_nccl.size = sizeof real_nccl;
    real_nccl.version = RINGPRESS_ENGINE_VERSION;
#define FIND(name) *reinterpret_cast<void**>(&real_nccl.name) = dlsym(library, "nccl" #name);
    RINGPRESS_INTERCEPTED(FIND)
    RINGPRESS_CALLED(FIND)
#undef FIND
    ringpressRealNccl recording = real_nccl;
    recording.AllReduce = counting_all_reduce;
    recording.Send = counting_send;
    return recording;
  }();
  return table;
}

inline Settings make_settings(std::vector<std::pair<std::string, std::string>> more = {}) {
  std::vector<std::pair<std::string, std::string>> all = {
      {"RINGPRESS_BACKEND", "host"},     {"RINGPRESS_CODEC", "q4"},
      {"RINGPRESS_SOCKET_IFNAME", "lo"}, {"RINGPRESS_TIMEOUT_MS", "100000"},
      {"RINGPRESS_MIN_BYTES", "1024"},   {"RINGPRESS_WARMUP_STEPS", "0"}};
  all.insert(all.end(), more.begin(), more.end());
  return parse_settings(all, nullptr);
}

inline std::vector<float> make_values(int rank, std::size_t count, unsigned salt = 0) {
  std::mt19937 generator(static_cast<unsigned>(rank) * 7919 + salt);
  std::normal_distribution<float> distribution;
  std::vector<float> values(count);
  for (float& value : values) value = distribution(generator);
  return values;
}

template <typename Body>
void run_threads(int size, Body body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

/// An engine, and the few of its functions that the shim would call, as the shim calls them.
struct Job {
  explicit Job(const Settings& settings = make_settings(),
               const ringpressRealNccl& nccl = recording_nccl())
      : engine(nccl, settings) {}

  ncclUniqueId make_id() {
    ncclUniqueId id{};
    EXPECT_EQ(engine.real().GetUniqueId(&id), ncclSuccess);
    engine.making().id_made(&id);
    return id;
  }
  ncclComm_t join(const ncclUniqueId& id, int size, int rank) {
    ncclComm_t comm = nullptr;
    engine.making().joining(id);
    EXPECT_EQ(engine.real().CommInitRank(&comm, size, id, rank), ncclSuccess);
    engine.making().made_rank(&comm, id);
    return comm;
  }
  void destroy(ncclComm_t comm) {
    EXPECT_EQ(engine.end_in_order(comm, engine.real().CommDestroy), ncclSuccess);
  }
  ncclResult_t all_reduce(ncclComm_t comm, const std::vector<float>& send,
                          std::vector<float>& receive, ncclRedOp_t op = ncclSum) {
    return engine.reduce({CollectiveKind::kAllReduce, send.data(), receive.data(), send.size(),
                          ncclFloat32, op, comm, nullptr});
  }

  Engine engine;
};

/// Runs body(job, comm, rank) in threads that form one communicator.
template <typename Body>
void run_ranks(Job& job, int size, Body body) {
  const ncclUniqueId id = job.make_id();
  run_threads(size, [&](int rank) {
    const ncclComm_t comm = job.join(id, size, rank);
    body(comm, rank);
    job.destroy(comm);
  });
}

}  // namespace ringpress::nccl_plugin::interposer

#endif  // TESTS_SUPPORT_INTERPOSER_JOB_H_
