// Ranks of several hosts, which are threads that have been told so.
#ifndef TESTS_SUPPORT_INTERPOSER_HOSTS_H_
#define TESTS_SUPPORT_INTERPOSER_HOSTS_H_

#include <memory>
#include <vector>

#include "nccl_plugin/interposer/calls/runner.h"
#include "tests/support/interposer_job.h"

namespace ringpress::nccl_plugin::interposer {

/// Runs body(comm, rank) in threads that form one communicator, `hosts` by rank.
template <typename Body>
void run_hosts(const Settings& settings, const std::vector<int>& hosts, Body body,
               const ringpressRealNccl& real = recording_nccl()) {
  const int size = static_cast<int>(hosts.size());
  ncclUniqueId id{};
  ASSERT_EQ(real.GetUniqueId(&id), ncclSuccess);
  run_threads(size, [&](int rank) {
    ncclComm_t handle = nullptr;
    ASSERT_EQ(real.CommInitRank(&handle, size, id, rank), ncclSuccess);
    std::shared_ptr<Comm> comm = Comm::make(real, settings, handle, {1, ""}).value();
    comm->policy().set_hosts(hosts);
    HostGroups groups;
    groups.position = find_position(hosts, rank);
    if (wants_groups(settings, real.CommSplit != nullptr, hosts)) {
      ASSERT_EQ(split_hosts(real, {{handle, &groups}}), ncclSuccess);
      comm->set_groups(groups);
    }
    ASSERT_TRUE(comm->prepare_to_compress().is_ok());
    comm->open();
    body(comm, rank);
    comm->lifetime().end_groups(false);
    ASSERT_EQ(real.CommDestroy(handle), ncclSuccess);
  });
}

inline ncclResult_t all_reduce(const std::shared_ptr<Comm>& comm, const std::vector<float>& send,
                               std::vector<float>& receive, ncclRedOp_t op,
                               const ringpressRealNccl& real = recording_nccl()) {
  Call call;
  call.send = send.data();
  call.receive = receive.data();
  call.count = send.size();
  call.op = op;
  call.comm = comm->handle();
  PlannedCall planned{call};
  if (!comm->planner().plan(&planned)) return run_exactly(real, call);
  const AcceptedCall accepted{comm, planned};
  return run_calls(real, {&accepted, 1});
}

}  // namespace ringpress::nccl_plugin::interposer

#endif  // TESTS_SUPPORT_INTERPOSER_HOSTS_H_
