// CollNet that fails, or is handed what it did not give: one warning each.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/support/collnet_nodes.h"

namespace ringpress::testing {
namespace {

/// How many of so many calls fail, and how many warnings say so.
std::string lose(ProxyNode& node, std::size_t calls) {
  std::vector<float> values(calls * 65536);
  std::vector<void*> requests(calls, nullptr);
  void* mhandles[2] = {nullptr, nullptr};
  NetLog::take_warnings();
  for (std::size_t i = 0; i < calls; ++i) {
    float* const at = values.data() + i * 65536;
    node.api().iallreduce(node.coll_comm(), at, at, 65536, ncclFloat32, mhandles, &requests[i]);
  }
  std::size_t failed = 0;
  for (void* request : requests) {
    int done = 0;
    ncclResult_t result = ncclSuccess;
    while (done == 0 && result == ncclSuccess) result = node.api().test(request, &done, nullptr);
    if (result != ncclSuccess) ++failed;
  }
  return std::to_string(failed) + " failed, told " + std::to_string(NetLog::take_warnings().size());
}

// Whatever the workers say of it, which is not the same.
TEST(CollNetErrors, EachFailureOfACommunicatorIsToldOnce) {
  NodeMeeting first_meeting(2);
  NodeMeeting second_meeting(2);
  const auto reports = run_peers(PeerKind::kProcesses, 2, [&](int rank) -> std::string {
    set_environment({{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_TIMEOUT_MS", "1000"}});
    ProxyOptions options;
    options.rank = rank;
    options.profiler_version = 0;  // The calls are not those of a tensor.
    ProxyNode first(open_plugin(kLibrary), options, &first_meeting, &NetLog::write);
    if (first.connect() != ncclSuccess) return "connect";
    options.comm_id = 2;
    ProxyNode second(open_plugin(kLibrary), options, &second_meeting, &NetLog::write);
    if (second.connect() != ncclSuccess) return "connect";
    if (rank == 1) {  // Hangs.
      first_meeting.wait();
      _exit(0);
    }
    std::string text = lose(first, 64);
    text += "; " + lose(second, 64);
    text += "; again: " + lose(first, 64);
    first_meeting.wait();
    return text;
  });
  EXPECT_EQ(reports[0].text, "64 failed, told 1; 64 failed, told 1; again: 64 failed, told 0");
}

// Each is refused with a warning, and what is alive stays so.
TEST(CollNetErrors, HandlesOfAnotherKindAreRefused) {
  const auto reports = run_nodes(kLibrary, 1, {}, {}, [](ProxyNode& node, int) -> std::string {
    const CollNetApi& api = node.api();
    void* const comm = node.coll_comm();
    std::array<char, abi::kHandleBytes> handle{};
    void* handles[1] = {handle.data()};
    float value = 1;
    void* none[2] = {nullptr, nullptr};
    void* ctx = nullptr;
    void* listener = nullptr;
    void* mhandle = nullptr;
    if (api.init(&ctx, 1, &NetLog::write) != ncclSuccess) return "init";
    if (api.listen(ctx, 0, handle.data(), &listener) != ncclSuccess) return "listen";
    if (api.reg_mr(comm, &value, 4, abi::kPointerHost, &mhandle) != ncclSuccess) return "regMr";
    void* const unknown = reinterpret_cast<void*>(std::uintptr_t{0x1000});
    void* const gone = ctx;
    if (api.finalize(ctx) != ncclSuccess) return "finalize";
    void* wrong[2] = {listener, listener};
    void* place = nullptr;
    NetLog::take_warnings();
    const std::vector<ncclResult_t> refusals{
        api.finalize(comm),
        api.finalize(listener),
        api.finalize(unknown),
        api.finalize(gone),
        api.listen(comm, 0, handle.data(), &place),
        api.connect(handles, 1, 0, comm, &place),
        api.connect(handles, 1, 0, unknown, &place),
        api.reg_mr(listener, &value, 4, abi::kPointerHost, &place),
        api.reg_mr(mhandle, &value, 4, abi::kPointerHost, &place),
        api.reg_mr(unknown, &value, 4, abi::kPointerHost, &place),
        api.dereg_mr(comm, comm),
        api.dereg_mr(comm, listener),
        api.dereg_mr(comm, unknown),
        api.dereg_mr(mhandle, mhandle),
        api.iallreduce(mhandle, &value, &value, 1, ncclFloat32, none, &place),
        api.iallreduce(comm, &value, &value, 1, ncclFloat32, wrong, &place),
        api.close_coll(listener),
        api.close_coll(mhandle),
        api.close_coll(unknown),
        api.close_listen(comm),
        api.close_listen(unknown),
    };
    for (std::size_t i = 0; i < refusals.size(); ++i) {
      if (refusals[i] != ncclInvalidArgument) return "accepted " + std::to_string(i);
    }
    if (NetLog::take_warnings().size() != refusals.size()) return "not told";
    // NCCL 2.28.3 finalizes a context that those split off still listen with.
    if (api.listen(gone, 0, handle.data(), &place) != ncclSuccess) return "no listener";
    if (api.close_listen(place) != ncclSuccess) return "closeListen";
    if (api.close_listen(listener) != ncclSuccess) return "closeListen";
    if (api.close_listen(listener) != ncclInvalidArgument) return "closed twice";
    void* mhandles[2] = {mhandle, mhandle};
    void* request = nullptr;
    if (api.iallreduce(comm, &value, &value, 1, ncclFloat32, mhandles, &request) != ncclSuccess) {
      return "iallreduce";
    }
    int done = 0;
    while (done == 0) {
      if (api.test(request, &done, nullptr) != ncclSuccess) return "test";
    }
    return api.dereg_mr(comm, mhandle) == ncclSuccess ? "ok" : "deregMr";
  });
  expect_reports(reports, "ok");
}

// All of the data of a call lies in what its handles stand for, if it has some.
TEST(CollNetErrors, DataOutsideOfRegisteredMemoryAreRefused) {
  const auto reports = run_nodes(kLibrary, 1, {}, {}, [](ProxyNode& node, int) -> std::string {
    const CollNetApi& api = node.api();
    void* const comm = node.coll_comm();
    std::array<float, 100> send{}, receive{};
    void* sent = nullptr;
    void* received = nullptr;
    const int host = abi::kPointerHost;
    if (api.reg_mr(comm, send.data(), 99 * 4, host, &sent) != ncclSuccess) return "regMr";
    if (api.reg_mr(comm, receive.data(), 99 * 4, host, &received) != ncclSuccess) return "regMr";
    void* mhandles[2] = {sent, received};
    void* only_send[2] = {sent, nullptr};
    void* crossed[2] = {received, sent};
    void* place = nullptr;
    const auto reduce = [&](std::size_t first, std::size_t count, void** handles) {
      return api.iallreduce(comm, &send[first], &receive[first], count, ncclFloat32, handles,
                            &place);
    };
    NetLog::take_warnings();
    void* never = nullptr;
    const std::vector<ncclResult_t> refusals{
        reduce(0, 100, mhandles),
        reduce(0, 100, only_send),
        reduce(1, 99, mhandles),
        reduce(0, 99, crossed),
        api.reg_mr(comm, send.data(), ~std::size_t{0}, host, &never),
        api.reg_mr(comm, nullptr, 4, host, &never),
        api.iflush(comm, receive.data(), 400, received, &never),
        api.iflush(comm, receive.data(), -1, nullptr, &never),
        api.iflush(comm, receive.data(), 4, comm, &never),
        api.iflush(comm, receive.data(), 4, received, nullptr),
        api.iflush(sent, receive.data(), 4, received, &never),
        api.iflush(nullptr, receive.data(), 4, received, &never),
    };
    for (std::size_t i = 0; i < refusals.size(); ++i) {
      if (refusals[i] != ncclInvalidArgument) return "accepted " + std::to_string(i);
    }
    if (place != nullptr || never != nullptr) return "gave something";
    if (NetLog::take_warnings().size() != refusals.size()) return "not told";
    for (void** const handles : {mhandles, only_send}) {
      if (reduce(0, 99, handles) != ncclSuccess) return "iallreduce";
      int done = 0;
      while (done == 0) {
        if (api.test(place, &done, nullptr) != ncclSuccess) return "test";
      }
    }
    if (api.iflush(comm, receive.data(), 99 * 4, received, &place) != ncclSuccess) return "iflush";
    if (api.dereg_mr(comm, sent) != ncclSuccess) return "deregMr";
    if (api.dereg_mr(comm, sent) != ncclInvalidArgument) return "released twice";
    if (reduce(0, 1, mhandles) != ncclInvalidArgument) return "released memory was taken";
    return api.dereg_mr(comm, nullptr) == ncclSuccess ? "ok" : "null was registered";
  });
  expect_reports(reports, "ok");
}

// What was closed is not to be looked at: its memory may be somebody else's.
TEST(CollNetErrors, HandlesOfWhatIsGoneAreRefused) {
  const auto reports = run_nodes(kLibrary, 1, {}, {}, [](ProxyNode& node, int) -> std::string {
    const CollNetApi& api = node.api();
    std::array<char, abi::kHandleBytes> handle{};
    void* handles[1] = {handle.data()};
    void* listener = nullptr;
    void* comm = nullptr;
    void* mhandle = nullptr;
    void* request = nullptr;
    void* none[2] = {nullptr, nullptr};
    float value = 1;
    int done = 0;
    if (api.listen(nullptr, 0, handle.data(), &listener) != ncclSuccess) return "listen";
    if (api.connect(handles, 1, 0, listener, &comm) != ncclSuccess) return "connect";
    if (api.close_listen(listener) != ncclSuccess) return "closeListen";
    if (api.reg_mr(comm, &value, 4, abi::kPointerHost, &mhandle) != ncclSuccess) return "regMr";
    if (api.iallreduce(comm, &value, &value, 1, ncclFloat32, none, &request) != ncclSuccess) {
      return "iallreduce";
    }
    while (done == 0) {
      if (api.test(request, &done, nullptr) != ncclSuccess) return "test";
    }
    if (api.close_coll(comm) != ncclSuccess) return "closeColl";
    void* const unknown = reinterpret_cast<void*>(std::uintptr_t{0x1000});
    void* gone_mhandles[2] = {mhandle, mhandle};
    void* unknown_mhandles[2] = {unknown, unknown};
    void* place = nullptr;
    NetLog::take_warnings();
    const std::vector<ncclResult_t> refusals{
        api.connect(handles, 1, 0, listener, &place),
        api.close_listen(listener),
        api.close_coll(comm),
        api.reg_mr(comm, &value, 4, abi::kPointerHost, &place),
        api.dereg_mr(comm, mhandle),
        api.iallreduce(comm, &value, &value, 1, ncclFloat32, none, &place),
        api.iallreduce(unknown, &value, &value, 1, ncclFloat32, none, &place),
        api.iallreduce(node.coll_comm(), &value, &value, 1, ncclFloat32, gone_mhandles, &place),
        api.iallreduce(node.coll_comm(), &value, &value, 1, ncclFloat32, unknown_mhandles, &place),
        api.test(request, &done, nullptr),
        api.test(unknown, &done, nullptr),
    };
    for (std::size_t i = 0; i < refusals.size(); ++i) {
      if (refusals[i] != ncclInvalidArgument) return "accepted " + std::to_string(i);
    }
    if (place != nullptr) return "gave something";
    return NetLog::take_warnings().size() == refusals.size() ? "ok" : "not told";
  });
  expect_reports(reports, "ok");
}

// More than the properties say, and types and operations that NCCL has no name for.
TEST(CollNetErrors, CallsThatWereNeverOfferedAreRefused) {
  for (const int version : {7, 9, 12}) {
    ProxyOptions options;
    options.collnet_version = version;
    const auto reports =
        run_nodes(kLibrary, 1, options, {}, [](ProxyNode& node, int) -> std::string {
          const CollNetApi& api = node.api();
          CollNetProperties properties;
          if (api.get_properties(0, &properties) != ncclSuccess) return "getProperties";
          // Versions 7 and 8 have no such property, and the same limit.
          const std::size_t most =
              properties.max_coll_bytes > 1 ? properties.max_coll_bytes : std::size_t{1} << 30;
          float value = 1;
          void* none[2] = {nullptr, nullptr};
          for (const auto& [type, width] : {std::pair(ncclFloat32, 4UL), {ncclFloat16, 2UL}}) {
            void* request = &value;
            const std::size_t count = most / width + 1;
            if (api.iallreduce(node.coll_comm(), &value, &value, count, type, none, &request) !=
                ncclInvalidArgument) {
              return "accepted too much";
            }
            if (request != nullptr) return "gave a request";
          }
          for (const int type : {99, -1, 1 << 30}) {
            void* request = &value;
            int supported = 7;
            if (api.reduce_support(type, ncclSum, &supported) != ncclSuccess) return "type";
            if (supported != 0) return "supports an unknown type";
            if (api.reduce_support(ncclFloat32, type, &supported) != ncclSuccess) return "op";
            if (supported != 0) return "supports an unknown operation";
            if (api.iallreduce(node.coll_comm(), &value, &value, 1, type, none, &request) !=
                ncclInvalidArgument) {
              return "accepted an unknown type";
            }
          }
          // Nothing has happened: the next call is the first.
          std::vector<float> send(1000, 3.0F), receive(1000);
          const ProxyOperation operation{send.data(), receive.data(), 1000, ncclFloat32, 1, 65536};
          if (node.run({operation}) != ncclSuccess) return "an error";
          return receive == send ? "ok" : "a wrong sum";
        });
    expect_reports(reports, "ok");
  }
}

TEST(CollNetErrors, AForkedChildClosesNothingOfItsParents) {
  const auto reports =
      run_nodes(kLibrary, 2, {}, {{"RINGPRESS_SHM", "0"}}, [](ProxyNode& node, int) -> std::string {
        std::vector<float> send(100000, 3.0F), receive(send.size());
        const ProxyOperation operation{send.data(), receive.data(), send.size(), ncclFloat32,
                                       1,           65536};
        if (node.run({operation}) != ncclSuccess) return "an error";
        const pid_t child = fork();
        if (child == 0) {
          alarm(60);  // Where it waits for threads that it does not have.
          void* request = nullptr;
          void* none[2] = {};
          const ncclResult_t refused = node.api().iallreduce(
              node.coll_comm(), send.data(), receive.data(), 16, ncclFloat32, none, &request);
          if (refused != ncclInvalidUsage || request != nullptr) _exit(2);
          _exit(node.api().close_coll(node.coll_comm()) == ncclSuccess ? 0 : 1);
        }
        int status = -1;
        if (waitpid(child, &status, 0) != child || status != 0) return "the child failed";
        for (int i = 0; i < 3; ++i) {
          if (node.run({operation}) != ncclSuccess) return "an error afterwards";
        }
        return receive == std::vector<float>(send.size(), 6.0F) ? "ok" : "a wrong sum";
      });
  expect_reports(reports, "ok");
}

// NCCL hands the operation of a neighbour process over as it is: its pointers are that one's.
TEST(CollNetErrors, ProxyOpsOfAnotherProcessAreNotLookedAt) {
  void* const library = open_plugin(kLibrary);
  for (const int version : {4, 5, 6}) {
    void* const elsewhere = reinterpret_cast<void*>(std::uintptr_t{0x1000});
    profiler_api_of(library, version).start_channel_of(getpid() + 1, elsewhere, elsewhere);
  }
}

// It is told of nothing from then on, and costs nobody a job.
TEST(CollNetErrors, AProfilerThatIsGoneIsHarmless) {
  void* const library = open_plugin(kLibrary);
  for (const int version : {4, 5, 6}) {
    const ProfilerApi api = profiler_api_of(library, version);
    void* ctx = nullptr;
    api.init(&ctx, {});
    float value = 1;
    ASSERT_NE(api.start_tensor(ctx, {&value, 1}), nullptr);
    void* const unknown = reinterpret_cast<void*>(std::uintptr_t{0x1000});
    api.finalize(ctx);
    api.finalize(ctx);
    api.finalize(unknown);
    api.finalize(nullptr);
    for (void* const gone : {ctx, unknown}) {
      EXPECT_EQ(api.start_tensor(gone, {&value, 1}), nullptr);
      void* place = nullptr;
      api.start_channel(gone, unknown, 0, 1, 32768, &place);
    }
  }
}

// A communicator is aborted while the progress thread, which another one shares with it, is told of
// its operations. (A sanitizer sees what goes wrong at once.)
TEST(CollNetErrors, AProfilerMayEndWhileItIsTold) {
  const ProfilerApi api = profiler_api_of(open_plugin(kLibrary), 6);
  std::atomic<void*> told{nullptr};
  std::atomic<bool> is_over{false};
  std::thread progress([&] {
    void* place = nullptr;
    void* const tensor = reinterpret_cast<void*>(std::uintptr_t{1});
    while (!is_over.load()) {
      if (void* const ctx = told.load()) api.start_channel(ctx, tensor, 0, 1, 32768, &place);
    }
  });
  for (int round = 0; round < 3000; ++round) {
    void* ctx = nullptr;
    api.init(&ctx, {});
    ASSERT_NE(ctx, nullptr);
    float value = 1;
    EXPECT_NE(api.start_tensor(ctx, {&value, 1}), nullptr);
    told.store(ctx);
    if (round % 8 == 0) std::this_thread::yield();
    api.finalize(ctx);
  }
  is_over.store(true);
  progress.join();
}

}  // namespace
}  // namespace ringpress::testing
