#include "nccl_plugin/session/live/nvtx_range.h"

#include <cstdio>
#include <iterator>

#ifdef RINGPRESS_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace ringpress::nccl_plugin {
namespace {

#ifdef RINGPRESS_HAVE_NVTX

nvtxDomainHandle_t domain_of(void* handle) {
  return static_cast<nvtxDomainHandle_t>(handle);
}

nvtxEventAttributes_t range_attributes() {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  return attributes;
}

void add_payload(std::uint64_t payload, nvtxEventAttributes_t* attributes) {
  attributes->payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  attributes->payload.ullValue = payload;
}

#endif

/// "4 MiB" of 4194304, with four digits at most.
void write_size(std::size_t bytes, char* text, std::size_t room) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  std::snprintf(text, room, " %.4g %s", value, kUnits[unit]);
}

}  // namespace

#ifdef RINGPRESS_HAVE_NVTX

bool NvtxDomain::is_built_in() {
  return true;
}

const NvtxDomain* NvtxDomain::find(const Settings& settings) {
  if (!settings.nvtx) return nullptr;
  static const NvtxDomain* const domain = [] {
    const nvtxDomainHandle_t handle = nvtxDomainCreateA("ringpress");
    return handle == nullptr ? nullptr : new NvtxDomain(handle);  // As long as the process.
  }();
  return domain;
}

NvtxDomain::NvtxDomain(void* handle) : handle_(handle) {
  for (std::size_t phase = 0; phase < kCallPhases; ++phase) {
    phases_[phase] =
        nvtxDomainRegisterStringA(domain_of(handle), phase_name(static_cast<CallPhase>(phase)));
  }
}

void NvtxDomain::begin(const char* name, std::uint64_t payload) const {
  nvtxEventAttributes_t attributes = range_attributes();
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  add_payload(payload, &attributes);
  nvtxDomainRangePushEx(domain_of(handle_), &attributes);
}

void NvtxDomain::begin_phase(CallPhase phase, int peer) const {
  nvtxEventAttributes_t attributes = range_attributes();
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered =
      static_cast<nvtxStringHandle_t>(phases_[static_cast<std::size_t>(phase)]);
  if (peer >= 0) add_payload(static_cast<std::uint64_t>(peer), &attributes);
  nvtxDomainRangePushEx(domain_of(handle_), &attributes);
}

void NvtxDomain::end() const {
  nvtxDomainRangePop(domain_of(handle_));
}

#else  // There is no domain, so nobody asks anything of it.

bool NvtxDomain::is_built_in() {
  return false;
}
const NvtxDomain* NvtxDomain::find(const Settings&) {
  return nullptr;
}
NvtxDomain::NvtxDomain(void* handle) : handle_(handle) {}
void NvtxDomain::begin(const char*, std::uint64_t) const {}
void NvtxDomain::begin_phase(CallPhase, int) const {}
void NvtxDomain::end() const {}

#endif

void NvtxCall::begin_whole(CollectiveKind kind, std::size_t bytes) {
  end_ranges();
  kind_ = kind;
  bytes_ = bytes;
  begin_range("");
}

void NvtxCall::end_ranges() {
  for (; ranges_ > 0; --ranges_) domain_->end();
}

/// The tool copies the name: nothing is kept of calls.
void NvtxCall::begin_range(const char* codec) {
  char size[24] = "";
  if (bytes_ != 0) write_size(bytes_, size, sizeof size);
  char name[160];
  const char* const space = *codec == '\0' ? "" : " ";
  std::snprintf(name, sizeof name, "%s%s%s%s", collective_name(kind_), size, space, codec);
  domain_->begin(name, bytes_);
  ++ranges_;
}

}  // namespace ringpress::nccl_plugin
