// What the doctor thinks of door A.
#include <fmt/core.h>

#include <algorithm>

#include "nccl_plugin/command/doctor.h"
#include "ringpress/internal/setting_types.h"

namespace ringpress::nccl_plugin::command {
namespace {

constexpr const char* kBuildAgain = "build or install it again";

Finding about_door(Level level, std::string text, std::string remedy = "") {
  return {level, "door A", std::move(text), std::move(remedy)};
}

/// Where the library of door A would look, of what can be seen without the program.
bool has_real_nccl(const Surroundings& all) {
  if (all.named_nccl && all.named_nccl->is_real()) return true;
  return std::any_of(all.nccl.begin(), all.nccl.end(),
                     [](const NcclLibrary& nccl) { return nccl.is_real(); });
}

void judge_real_nccl(const Surroundings& all, std::vector<Finding>* findings) {
  if (all.named_nccl && !all.named_nccl->is_real()) {
    const std::string why =
        all.named_nccl->is_ours ? "it is this library for host memory" : all.named_nccl->problem;
    findings->push_back(about_door(
        Level::kProblem, fmt::format("{}={}: {}", kRealNccl, all.environment.value(kRealNccl), why),
        "set it to the absolute path of NVIDIA's libnccl.so.2, or unset it"));
  }
  if (has_real_nccl(all)) return;
  findings->push_back(about_door(
      Level::kWarning,
      "no NCCL is seen to pass calls on to, neither by the loader nor in Python's packages: they "
      "all fail in a program that does not bring one",
      fmt::format("set {} to the absolute path of NVIDIA's libnccl.so.2", kRealNccl)));
}

void judge_shims(const Surroundings& all, std::vector<Finding>* findings) {
  for (const DoorLibrary& shim : {all.preload, all.preload_as_nccl}) {
    if (shim.problem.empty()) continue;
    findings->push_back(about_door(Level::kProblem, shim.problem, kBuildAgain));
  }
}

void judge_engine(const Surroundings& all, std::vector<Finding>* findings) {
  if (all.engine.problem.empty()) return;
  findings->push_back(
      about_door(all.engine.path.empty() ? Level::kWarning : Level::kProblem,
                 fmt::format("{}: calls go to NCCL as they are, and nothing is compressed",
                             all.engine.problem),
                 kBuildAgain));
}

void judge_kernels(const Surroundings& all, std::vector<Finding>* findings) {
  const Variable* const backend = all.environment.find("RINGPRESS_BACKEND");
  if (backend != nullptr && find_word<BackendChoice>(backend->value) == Backend::kHost) {
    findings->push_back(about_door(
        Level::kWarning,
        "RINGPRESS_BACKEND=host is refused in a process that uses CUDA: nothing is compressed",
        "unset it"));
    return;
  }
  if (!all.kernels.problem.empty()) {
    findings->push_back(about_door(
        all.kernels.path.empty() ? Level::kWarning : Level::kProblem,
        fmt::format("there are no kernels ({}): calls go to NCCL as they are, and nothing is "
                    "compressed",
                    all.kernels.problem),
        "build the target ringpress_cuda, with nvcc, and keep libringpress-cuda.so beside "
        "libringpress.so"));
  }
  if (!all.has_gpu_driver) {
    findings->push_back(about_door(Level::kWarning,
                                   "there is no GPU driver (libcuda.so.1) for its kernels",
                                   "NCCL works on GPUs only; door C works without"));
  }
}

}  // namespace

std::vector<Finding> judge_preloading(const Surroundings& all) {
  if (all.preload.path.empty()) {
    return {
        about_door(Level::kWarning, "there is no libringpress-preload.so", "build or install it")};
  }
  std::vector<Finding> findings;
  judge_shims(all, &findings);
  if (!all.preload.problem.empty()) return findings;
  judge_engine(all, &findings);
  judge_real_nccl(all, &findings);
  judge_kernels(all, &findings);
  if (findings.empty()) {
    findings.push_back(about_door(
        Level::kOk,
        fmt::format(
            "LD_PRELOAD={} catches programs that are linked with NCCL; not yet tried on a GPU",
            all.preload.path)));
  } else {
    findings.insert(findings.begin(),
                    about_door(Level::kOk, fmt::format("{} can be loaded", all.preload.path)));
  }
  return findings;
}

}  // namespace ringpress::nccl_plugin::command
