#include "ring/transport/common/session_keys.h"

#include <sodium.h>

#include <cstring>
#include <utility>

namespace ringpress::ring::transport {
namespace {

constexpr unsigned char kNextKey[] = "ringpress: next key of records";
constexpr std::size_t kNonceBytes = sizeof(Hello::nonce);

bool is_for_aes(const Hello& hello) {
  return hello.purpose == static_cast<std::uint8_t>(HelloPurpose::kEncryptedDataByAes);
}

enum class Flow : unsigned char { kToAcceptor = 1, kToConnector = 2 };

CipherKey derive(const Secret& secret, Flow flow, const Hello& connector, const Hello& acceptor) {
  std::array<unsigned char, 1 + 2 * kNonceBytes> message;
  message[0] = static_cast<unsigned char>(flow);
  std::memcpy(&message[1], connector.nonce.data(), kNonceBytes);
  std::memcpy(&message[1 + kNonceBytes], acceptor.nonce.data(), kNonceBytes);
  CipherKey key;
  crypto_generichash(key.data(), key.size(), message.data(), message.size(),
                     reinterpret_cast<const unsigned char*>(secret.data()), secret.size());
  return key;
}

}  // namespace

HelloPurpose data_purpose(bool is_encrypted) {
  if (!is_encrypted) return HelloPurpose::kData;
  return has_aes() ? HelloPurpose::kEncryptedDataByAes : HelloPurpose::kEncryptedData;
}

bool is_data(const Hello& hello, bool is_encrypted) {
  if (!is_encrypted) return hello.purpose == static_cast<std::uint8_t>(HelloPurpose::kData);
  return is_for_aes(hello) ||
         hello.purpose == static_cast<std::uint8_t>(HelloPurpose::kEncryptedData);
}

std::optional<SessionKeys> connector_keys(const Secret& secret, const Hello& connector,
                                          const Hello& acceptor) {
  if (!is_data(connector, true) || !is_data(acceptor, true)) return std::nullopt;
  SessionKeys keys;
  if (is_for_aes(connector) && is_for_aes(acceptor)) keys.cipher = Cipher::kAes256Gcm;
  keys.outgoing = derive(secret, Flow::kToAcceptor, connector, acceptor);
  keys.incoming = derive(secret, Flow::kToConnector, connector, acceptor);
  return keys;
}

std::optional<SessionKeys> acceptor_keys(const Secret& secret, const Hello& connector,
                                         const Hello& acceptor) {
  std::optional<SessionKeys> keys = connector_keys(secret, connector, acceptor);
  if (keys) std::swap(keys->outgoing, keys->incoming);
  return keys;
}

CipherKey next_key(const CipherKey& key) {
  CipherKey next;
  crypto_generichash(next.data(), next.size(), kNextKey, sizeof kNextKey, key.data(), key.size());
  return next;
}

}  // namespace ringpress::ring::transport
