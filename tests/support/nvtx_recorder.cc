// A tool that shows ranges of NVTX, for tests: as such tools do, it is loaded by the library that
// makes the ranges (NVTX_INJECTION64_PATH), and writes what it is told into the file NVTX_RECORD,
// a line each:
//
//   process thread create NAME
//   process thread push DOMAIN payload NAME     (payload -1: none)
//   process thread pop DOMAIN
//
// It allocates nothing where ranges begin and end.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

namespace {

/// What a handle points to. Stays where it is.
const std::string* keep(const char* text) {
  static std::mutex mutex;
  static auto* const kept = new std::deque<std::string>();
  const std::lock_guard lock(mutex);
  return &kept->emplace_back(text);
}

template <typename Handle>
Handle handle_of(const char* text) {
  return reinterpret_cast<Handle>(const_cast<std::string*>(keep(text)));
}
template <typename Handle>
const char* text_of(Handle handle) {
  return reinterpret_cast<const std::string*>(handle)->c_str();
}

[[gnu::format(printf, 1, 2)]] void record(const char* format, ...) {
  static const int file = [] {
    const char* const name = std::getenv("NVTX_RECORD");
    return name == nullptr ? -1 : open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }();
  char line[300];
  int length = std::snprintf(line, sizeof line, "%d %ld ", getpid(), syscall(SYS_gettid));
  va_list values;
  va_start(values, format);
  length +=
      std::vsnprintf(line + length, sizeof line - static_cast<std::size_t>(length), format, values);
  va_end(values);
  if (write(file, line, static_cast<std::size_t>(length)) != length) std::abort();
}

nvtxDomainHandle_t create_domain(const char* name) {
  record("create %s\n", name);
  return handle_of<nvtxDomainHandle_t>(name);
}

nvtxStringHandle_t register_string(nvtxDomainHandle_t, const char* text) {
  return handle_of<nvtxStringHandle_t>(text);
}

int push_range(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  const bool is_registered = attributes->messageType == NVTX_MESSAGE_TYPE_REGISTERED;
  const bool has_payload = attributes->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  record("push %s %lld %s\n", text_of(domain),
         has_payload ? static_cast<long long>(attributes->payload.ullValue) : -1,
         is_registered ? text_of(attributes->message.registered) : attributes->message.ascii);
  return 0;
}

int pop_range(nvtxDomainHandle_t domain) {
  record("pop %s\n", text_of(domain));
  return 0;
}

template <typename Function>
void take(NvtxFunctionTable table, NvtxCallbackIdCore2 which, Function* function) {
  *table[which] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" [[gnu::visibility("default")]] int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t find_table) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(find_table(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr) return 0;
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  if (size <= NVTX_CBID_CORE2_DomainCreateA) return 0;
  take(table, NVTX_CBID_CORE2_DomainCreateA, &create_domain);
  take(table, NVTX_CBID_CORE2_DomainRegisterStringA, &register_string);
  take(table, NVTX_CBID_CORE2_DomainRangePushEx, &push_range);
  take(table, NVTX_CBID_CORE2_DomainRangePop, &pop_range);
  return 1;
}
