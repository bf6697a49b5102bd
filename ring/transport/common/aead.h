// Authenticated encryption of a piece of memory, in place.
//
// AES-256-GCM is that of the system's OpenSSL where there is one, loaded when it is first needed:
// it is twice as fast as libsodium's and faster still where it is newer. Else it is libsodium's.
// Both give the same bytes.
#ifndef RING_TRANSPORT_COMMON_AEAD_H_
#define RING_TRANSPORT_COMMON_AEAD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace ringpress::ring::transport {

enum class Cipher : std::uint8_t { kAes256Gcm, kChaCha20Poly1305 };

using CipherKey = std::array<unsigned char, 32>;
using CipherNonce = std::array<unsigned char, 12>;
inline constexpr std::size_t kTagBytes = 16;

/// With one key. One thread at a time.
class Aead {
 public:
  virtual ~Aead() = default;
  /// `text` ends with room for the tag. `head` is authenticated too. No nonce may come twice.
  virtual void seal(const CipherNonce& nonce, std::span<const unsigned char> head,
                    std::span<unsigned char> text) = 0;
  /// False, and `text` is of no use: it was not sealed so.
  virtual bool open(const CipherNonce& nonce, std::span<const unsigned char> head,
                    std::span<unsigned char> text) = 0;
};

std::unique_ptr<Aead> make_aead(Cipher cipher, const CipherKey& key);
/// Whether this machine has AES-256-GCM by instructions for it.
bool has_aes();

// The ways to AES-256-GCM, for tests. Null: not on this machine.
std::unique_ptr<Aead> make_sodium_aes(const CipherKey& key);
std::unique_ptr<Aead> make_openssl_aes(const CipherKey& key);

}  // namespace ringpress::ring::transport

#endif  // RING_TRANSPORT_COMMON_AEAD_H_
