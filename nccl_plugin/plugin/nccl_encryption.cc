#include "nccl_plugin/plugin/nccl_encryption.h"

#include <dlfcn.h>

#include <atomic>

#include "nccl_plugin/plugin/report.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

using Asks = int (*)();

// As preload/shim.c has it.
constexpr const char* kName = "ringpressNcclEncrypts";
// Of the preloaded library where a program has opened it itself.
constexpr const char* kLibraries[] = {"libnccl.so.2", "libringpress-preload.so"};

Asks as_function(void* symbol) {
  return reinterpret_cast<Asks>(symbol);
}

/// Null: it is not there. The preloaded library is never unmapped.
Asks find_preloaded() {
  if (void* const found = dlsym(RTLD_DEFAULT, kName)) return as_function(found);
  for (const char* name : kLibraries) {
    void* const library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    void* const found = dlsym(library, kName);
    dlclose(library);
    if (found != nullptr) return as_function(found);
  }
  return nullptr;
}

}  // namespace

bool is_nccl_to_encrypt() {
  const Asks asks = find_preloaded();
  return asks != nullptr && asks() != 0;
}

bool is_network_left_to_nccl() {
  if (!is_nccl_to_encrypt() || is_encrypted(read_settings())) return false;
  static std::atomic<bool> is_told{false};
  if (!is_told.exchange(true)) {
    log(abi::LogLevel::kWarn, abi::kLogInit | abi::kLogNet,
        "the program has NCCL encrypt what it sends (ncclSetEncryption), which this library does "
        "not do: it sends nothing itself, and nothing is compressed; RINGPRESS_ENCRYPT=on makes it "
        "encrypt");
  }
  return true;
}

}  // namespace ringpress::nccl_plugin::plugin
