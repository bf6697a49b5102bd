// The functions of libringpress.so that the back end calls, looked up in the file that it is given.
#ifndef NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_NCCL_FUNCTIONS_H_
#define NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_NCCL_FUNCTIONS_H_

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "ringpress/nccl.h"

namespace ringpress_torch {

/// The library stays open until the process ends.
class NcclFunctions {
 public:
  /// Throws std::runtime_error if the file cannot be opened or lacks a function.
  explicit NcclFunctions(const std::string& path)
      : library_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(dlerror());
    find("ncclGetLastError", &last_error_);
    find("ncclGetUniqueId", &get_unique_id);
    find("ncclCommInitRankConfig", &init_rank);
    find("ncclCommDestroy", &destroy);
    find("ncclCommAbort", &abort);
    find("ncclAllReduce", &all_reduce);
    find("ncclReduce", &reduce);
    find("ncclBroadcast", &broadcast);
    find("ncclAllGather", &all_gather);
    find("ncclReduceScatter", &reduce_scatter);
    find("ncclSend", &send);
    find("ncclRecv", &receive);
    find("ncclGroupStart", &group_start);
    find("ncclGroupEnd", &group_end);
  }

  /// Throws std::runtime_error with the library's own words.
  void check(ncclResult_t result) const {
    if (result != ncclSuccess)
      throw std::runtime_error(std::string("ringpress: ") + last_error_(nullptr));
  }

  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) init_rank;
  decltype(&ncclCommDestroy) destroy;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclReduce) reduce;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) receive;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;

 private:
  template <typename Function>
  void find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library_, name));
    if (*function == nullptr)
      throw std::runtime_error(std::string("libringpress.so has no ") + name);
  }

  void* library_;
  decltype(&ncclGetLastError) last_error_ = nullptr;
};

}  // namespace ringpress_torch

#endif  // NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_NCCL_FUNCTIONS_H_
