// The entry point for encryption.
#include <mutex>
#include <string>

#include "nccl_plugin/host/arguments.h"
#include "nccl_plugin/host/encryption.h"
#include "nccl_plugin/host/translate.h"
#include "ringpress/internal/export.h"
#include "ringpress/nccl.h"

namespace ringpress::nccl_plugin::host {
namespace {

struct ProgramKey {
  std::mutex mutex;
  std::string text;
};

ProgramKey& program_key() {
  static ProgramKey& key = *new ProgramKey;  // Communicators are made until the process ends.
  return key;
}

}  // namespace

std::string encryption_key() {
  const std::lock_guard lock(program_key().mutex);
  return program_key().text;
}

namespace {

void set_encryption_key(const std::string& text) {
  const std::lock_guard lock(program_key().mutex);
  program_key().text = text;
}

Status set_encryption(const ncclEncryptionConfig_t* config) {
  RINGPRESS_RETURN_IF_ERROR(check_pointer(config, "config"));
  if (config->magic != NCCL_API_MAGIC || config->size < sizeof *config) {
    return Status(
        Code::kInvalidArgument,
        "config does not start from NCCL_ENCRYPTION_CONFIG_INITIALIZER: its size or magic "
        "is wrong");
  }
  switch (config->mode) {
    case NCCL_ENCRYPTION_MODE_NONE:
      set_encryption_key("");
      return Status::ok();
    case NCCL_ENCRYPTION_MODE_PSK:
      RINGPRESS_RETURN_IF_ERROR(check_pointer(config->psk, "config.psk"));
      if (*config->psk == '\0') return Status(Code::kInvalidArgument, "config.psk is empty");
      set_encryption_key(config->psk);
      return Status::ok();
    default:
      return Status(Code::kInvalidArgument, "config.mode is " + std::to_string(config->mode) +
                                                ", but must be an ncclEncryptionMode_t");
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::host

using namespace ringpress::nccl_plugin::host;  // NOLINT: the entry points are in no namespace.

RINGPRESS_EXPORT ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t* config) {
  return firewall("ncclSetEncryption", nullptr, [&] { return set_encryption(config); });
}
RINGPRESS_PROFILING_NAME(SetEncryption);
