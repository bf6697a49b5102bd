// The key that the program gave ncclSetEncryption, for communicators that are made from then on.
#ifndef NCCL_PLUGIN_HOST_ENCRYPTION_H_
#define NCCL_PLUGIN_HOST_ENCRYPTION_H_

#include <string>

namespace ringpress::nccl_plugin::host {

/// Of the process. Empty: none. Any thread.
std::string encryption_key();

}  // namespace ringpress::nccl_plugin::host

#endif  // NCCL_PLUGIN_HOST_ENCRYPTION_H_
