// Encryption that the program asks NCCL for (ncclSetEncryption(), from NCCL 2.32 on). NCCL encrypts
// what goes through its own sockets, and tells a network plugin neither a key nor that there is
// one. The preloaded library, where it is there, has seen the call.
#ifndef NCCL_PLUGIN_PLUGIN_NCCL_ENCRYPTION_H_
#define NCCL_PLUGIN_PLUGIN_NCCL_ENCRYPTION_H_

namespace ringpress::nccl_plugin::plugin {

/// True: this process has asked NCCL for encryption, as the preloaded library says; false without
/// that library. All processes of a job ask for it, or NCCL itself connects none. Any thread.
bool is_nccl_to_encrypt();

/// The same, where this library does not encrypt either (RINGPRESS_ENCRYPT): nothing of it may go
/// over a network then. Says so once.
bool is_network_left_to_nccl();

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_NCCL_ENCRYPTION_H_
