// The keys of one encrypted socket, which both sides make of the secret and their hellos (wire.h).
#ifndef RING_TRANSPORT_COMMON_SESSION_KEYS_H_
#define RING_TRANSPORT_COMMON_SESSION_KEYS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ring/transport/common/aead.h"
#include "ringpress/internal/wire.h"

namespace ringpress::ring::transport {

struct SessionKeys {
  Cipher cipher = Cipher::kChaCha20Poly1305;
  CipherKey outgoing{};
  CipherKey incoming{};
};

/// What this machine says in the hellos of its data sockets.
HelloPurpose data_purpose(bool is_encrypted);
/// Whether a hello opens a data socket, encrypted or not.
bool is_data(const Hello& hello, bool is_encrypted);

/// None unless both hellos open an encrypted data socket.
std::optional<SessionKeys> connector_keys(const Secret& secret, const Hello& connector,
                                          const Hello& acceptor);
std::optional<SessionKeys> acceptor_keys(const Secret& secret, const Hello& connector,
                                         const Hello& acceptor);

/// The key that follows `key` after wire.h's kRecordsOfKey records.
CipherKey next_key(const CipherKey& key);

}  // namespace ringpress::ring::transport

#endif  // RING_TRANSPORT_COMMON_SESSION_KEYS_H_
