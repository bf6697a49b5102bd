// Entry points for parameters: the environment variables that this library reads.
#include <charconv>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "nccl_plugin/host/arguments.h"
#include "nccl_plugin/host/translate.h"
#include "nccl_plugin/session/settings/environment.h"
#include "nccl_plugin/session/settings/nccl_variables.h"
#include "ringpress/internal/export.h"
#include "ringpress/internal/log.h"
#include "ringpress/internal/settings.h"
#include "ringpress/nccl.h"

/// One variable. Never destroyed.
struct ncclParamHandle {
  const char* key = "";
  const char* default_text = "";
};

using namespace ringpress::nccl_plugin::host;  // NOLINT: the entry points are in no namespace.
using ringpress::Code;
using ringpress::Result;
using ringpress::Status;
using ringpress::nccl_plugin::catch_all;
using ringpress::nccl_plugin::Environment;

namespace {

/// All but the secret.
const std::vector<ncclParamHandle>& parameters() {
  static const std::vector<ncclParamHandle>& all = *[] {
    auto* const found = new std::vector<ncclParamHandle>;
    for (const ringpress::SettingDescription& setting : ringpress::setting_descriptions()) {
      if (std::string_view(setting.name) == "RINGPRESS_SECRET") continue;
      found->push_back({setting.name, setting.default_text});
    }
    for (const auto& variable : ringpress::nccl_plugin::known_nccl_variables()) {
      found->push_back({variable.name, ""});
    }
    return found;
  }();
  return all;
}

Result<const ncclParamHandle*> find(const char* key) {
  RINGPRESS_RETURN_IF_ERROR(check_pointer(key, "key"));
  for (const ncclParamHandle& parameter : parameters()) {
    if (std::string_view(parameter.key) == key) return &parameter;
  }
  return Status(Code::kInvalidArgument,
                "key " + std::string(key).substr(0, 64) + " is no parameter of this library");
}

Result<const ncclParamHandle*> find(ncclParamHandle_t handle) {
  RINGPRESS_RETURN_IF_ERROR(check_pointer(handle, "h"));
  for (const ncclParamHandle& parameter : parameters()) {
    if (&parameter == handle) return &parameter;
  }
  return Status(Code::kInvalidArgument, "h did not come from ncclParamBind");
}

/// As the next communicator will find it. Set to nothing: as if it were not there.
std::string value_of(const ncclParamHandle& parameter, const Environment& environment) {
  const char* const text = environment.value(parameter.key);
  return text == nullptr || *text == '\0' ? parameter.default_text : text;
}
std::string value_of(const ncclParamHandle& parameter) {
  return value_of(parameter, Environment::of_this_process());
}

template <typename Number>
ncclResult_t get_number(const char* function, ncclParamHandle_t handle, Number* out) noexcept {
  return firewall(function, nullptr, [&]() -> Status {
    RINGPRESS_RETURN_IF_ERROR(check_pointer(out, "out"));
    RINGPRESS_ASSIGN_OR_RETURN(const ncclParamHandle* const parameter, find(handle));
    const std::string text = value_of(*parameter);
    Number number{};
    const char* const end = text.data() + text.size();
    const std::from_chars_result read = std::from_chars(text.data(), end, number);
    if (read.ec != std::errc() || read.ptr != end) {
      return Status(Code::kInvalidArgument,
                    std::string(parameter->key) + " is \"" + text + "\", no number from " +
                        std::to_string(std::numeric_limits<Number>::min()) + " to " +
                        std::to_string(std::numeric_limits<Number>::max()));
    }
    *out = number;
    return Status::ok();
  });
}

/// Texts that this thread was given, one for each function.
thread_local std::string text_of_handle;
thread_local std::string text_of_key;
thread_local std::vector<const char*> keys;

}  // namespace

RINGPRESS_EXPORT ncclResult_t ncclParamBind(ncclParamHandle_t* out, const char* key) {
  return firewall("ncclParamBind", nullptr, [&]() -> Status {
    RINGPRESS_RETURN_IF_ERROR(check_pointer(out, "out"));
    *out = nullptr;
    RINGPRESS_ASSIGN_OR_RETURN(const ncclParamHandle* const parameter, find(key));
    *out = const_cast<ncclParamHandle_t>(parameter);  // Nobody writes through it.
    return Status::ok();
  });
}
RINGPRESS_PROFILING_NAME(ParamBind);

#define RINGPRESS_PARAM_GET(suffix, type)                                              \
  RINGPRESS_EXPORT ncclResult_t ncclParamGet##suffix(ncclParamHandle_t h, type* out) { \
    return get_number("ncclParamGet" #suffix, h, out);                                 \
  }                                                                                    \
  RINGPRESS_PROFILING_NAME(ParamGet##suffix)

RINGPRESS_PARAM_GET(I8, int8_t);
RINGPRESS_PARAM_GET(I16, int16_t);
RINGPRESS_PARAM_GET(I32, int32_t);
RINGPRESS_PARAM_GET(I64, int64_t);
RINGPRESS_PARAM_GET(U8, uint8_t);
RINGPRESS_PARAM_GET(U16, uint16_t);
RINGPRESS_PARAM_GET(U32, uint32_t);
RINGPRESS_PARAM_GET(U64, uint64_t);

RINGPRESS_EXPORT ncclResult_t ncclParamGetStr(ncclParamHandle_t h, const char** out) {
  return firewall("ncclParamGetStr", nullptr, [&]() -> Status {
    RINGPRESS_RETURN_IF_ERROR(check_pointer(out, "out"));
    RINGPRESS_ASSIGN_OR_RETURN(const ncclParamHandle* const parameter, find(h));
    text_of_handle = value_of(*parameter);
    *out = text_of_handle.c_str();
    return Status::ok();
  });
}
RINGPRESS_PROFILING_NAME(ParamGetStr);

RINGPRESS_EXPORT ncclResult_t ncclParamGet(ncclParamHandle_t h, void* out, int maxLen, int* len) {
  return firewall("ncclParamGet", nullptr, [&]() -> Status {
    RINGPRESS_RETURN_IF_ERROR(check_pointer(out, "out"));
    RINGPRESS_RETURN_IF_ERROR(check_pointer(len, "len"));
    RINGPRESS_ASSIGN_OR_RETURN(const ncclParamHandle* const parameter, find(h));
    const std::string text = value_of(*parameter);
    *len = static_cast<int>(text.size());
    if (maxLen < *len) {
      return Status(Code::kInvalidArgument, "maxLen is " + std::to_string(maxLen) + ", but " +
                                                parameter->key + " has " +
                                                std::to_string(text.size()) + " bytes");
    }
    std::memcpy(out, text.data(), text.size());
    return Status::ok();
  });
}
RINGPRESS_PROFILING_NAME(ParamGet);

RINGPRESS_EXPORT ncclResult_t ncclParamGetParameter(const char* key, const char** value,
                                                    int* valueLen) {
  return firewall("ncclParamGetParameter", nullptr, [&]() -> Status {
    RINGPRESS_RETURN_IF_ERROR(check_pointer(value, "value"));
    RINGPRESS_ASSIGN_OR_RETURN(const ncclParamHandle* const parameter, find(key));
    text_of_key = value_of(*parameter);
    *value = text_of_key.c_str();
    if (valueLen != nullptr) *valueLen = static_cast<int>(text_of_key.size());
    return Status::ok();
  });
}
RINGPRESS_PROFILING_NAME(ParamGetParameter);

RINGPRESS_EXPORT ncclResult_t ncclParamGetAllParameterKeys(const char*** table, int* tableLen) {
  return firewall("ncclParamGetAllParameterKeys", nullptr, [&]() -> Status {
    RINGPRESS_RETURN_IF_ERROR(check_pointer(table, "table"));
    RINGPRESS_RETURN_IF_ERROR(check_pointer(tableLen, "tableLen"));
    keys.clear();
    for (const ncclParamHandle& parameter : parameters()) keys.push_back(parameter.key);
    *table = keys.data();
    *tableLen = static_cast<int>(keys.size());
    return Status::ok();
  });
}
RINGPRESS_PROFILING_NAME(ParamGetAllParameterKeys);

RINGPRESS_EXPORT void ncclParamDumpAll(void) {
  static_cast<void>(catch_all([]() -> Status {
    const Environment environment = Environment::of_this_process();
    for (const ncclParamHandle& parameter : parameters()) {
      ringpress::log_line(ringpress::LogLevel::kInfo, "%s=%s", parameter.key,
                          value_of(parameter, environment).c_str());
    }
    return Status::ok();
  }));
}
RINGPRESS_PROFILING_NAME(ParamDumpAll);
