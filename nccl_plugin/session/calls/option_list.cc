#include "nccl_plugin/session/calls/option_list.h"

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "compress_kernels/factory.h"
#include "ringpress/internal/decision.h"
#include "ringpress/ringpress.h"

namespace ringpress::nccl_plugin {
namespace {

constexpr int kMostOptions = 4096;
constexpr std::size_t kMostCodecs = 4096;
constexpr std::uintptr_t kLeastAddress = 4096;
constexpr std::string_view kExact = "exact";

struct NamedOption {
  int id;
  const char* name;
};
constexpr NamedOption kCodec{RINGPRESS_OPTION_CODEC, "RINGPRESS_OPTION_CODEC"};
constexpr NamedOption kTensor{RINGPRESS_OPTION_TENSOR, "RINGPRESS_OPTION_TENSOR"};

Status refusal(const std::string& text) {
  return {Code::kInvalidArgument, "config.ext: " + text};
}

/// A codec that was asked for before, or else one that there is. Decisions have its name, so it
/// stays for ever; a program asks for a few.
class AskedCodecs {
 public:
  struct Asked {
    std::string_view name;
    bool all_reduces_only = false;
  };

  Result<Asked> find(const char* text) {
    const std::string_view wanted(text);
    if (wanted == kExact || is_no_codec(wanted)) return Asked{kNoCodec, false};
    const std::lock_guard lock(mutex_);
    auto found = known_.find(wanted);
    if (found == known_.end()) {
      const std::string name(wanted);
      const Status status = compress_kernels::normalize_specification(name).status();
      if (!status.is_ok()) {
        return Status(Code::kInvalidArgument,
                      "\"" + name + "\" is neither \"exact\" nor a codec: " + status.message());
      }
      if (known_.size() == kMostCodecs) {
        return Status(Code::kInvalidArgument, "\"" + name + "\" would be one of more than " +
                                                  std::to_string(kMostCodecs) +
                                                  " codecs that calls have asked for");
      }
      found = known_.emplace(name, compress_kernels::projects(name)).first;
    }
    return Asked{found->first, found->second};
  }

 private:
  std::mutex mutex_;
  std::map<std::string, bool, std::less<>> known_;
};

AskedCodecs& asked_codecs() {
  static auto* const codecs = new AskedCodecs();  // Threads may call while the process ends.
  return *codecs;
}

Status read_codec(const char* text, CallOptions* options) {
  const Result<AskedCodecs::Asked> asked = asked_codecs().find(text);
  if (!asked.is_ok()) return refusal(std::string(kCodec.name) + ": " + asked.status().message());
  options->codec = asked.value().name;
  options->all_reduces_only = asked.value().all_reduces_only;
  return Status::ok();
}

void read_tensor(const char* text, CallOptions* options) {
  const std::uint64_t hash = XXH3_64bits(text, std::strlen(text));
  options->key = hash == 0 ? 1 : hash;
}

Status read_option(const ncclConfigExt_t& option, CallOptions* options) {
  const bool is_codec = option.key.optionId == kCodec.id;
  if (!is_codec && option.key.optionId != kTensor.id) {
    return refusal("this library has no option " + std::to_string(option.key.optionId) +
                   ": there are " + kCodec.name + " (" + std::to_string(kCodec.id) + ") and " +
                   kTensor.name + " (" + std::to_string(kTensor.id) + ")");
  }
  const std::string name = is_codec ? kCodec.name : kTensor.name;
  if (is_codec ? !options->codec.empty() : options->key != 0) return refusal(name + " comes twice");
  const char* const text = option.val.s;
  if (text == nullptr) return refusal(name + " is null, but must be a string");
  // A program that has set val.i: no memory is there.
  if (const auto address = reinterpret_cast<std::uintptr_t>(text); address < kLeastAddress) {
    return refusal(name + " is the number " + std::to_string(address) + ", but must be a string");
  }
  if (*text == '\0') return refusal(name + " is an empty string");
  if (is_codec) return read_codec(text, options);
  read_tensor(text, options);
  return Status::ok();
}

}  // namespace

Status read_options(const ncclConfigExt_t* first, CallOptions* options) {
  int count = 0;
  for (const ncclConfigExt_t* option = first; option != nullptr; option = option->next) {
    if (++count > kMostOptions) {
      return Status(Code::kInvalidArgument, "config.ext has a circle, or more than " +
                                                std::to_string(kMostOptions) + " options");
    }
    if (option->key.vendorId != RINGPRESS_VENDOR_ID) continue;
    RINGPRESS_RETURN_IF_ERROR(read_option(*option, options));
  }
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin
