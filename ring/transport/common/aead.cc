#include "ring/transport/common/aead.h"

#include <sodium.h>

#include <stdexcept>

namespace ringpress::ring::transport {
namespace {

static_assert(kTagBytes == crypto_aead_aes256gcm_ABYTES);
static_assert(kTagBytes == crypto_aead_chacha20poly1305_ietf_ABYTES);
static_assert(sizeof(CipherKey) == crypto_aead_aes256gcm_KEYBYTES);
static_assert(sizeof(CipherKey) == crypto_aead_chacha20poly1305_ietf_KEYBYTES);
static_assert(sizeof(CipherNonce) == crypto_aead_aes256gcm_NPUBBYTES);
static_assert(sizeof(CipherNonce) == crypto_aead_chacha20poly1305_ietf_NPUBBYTES);

class SodiumAes final : public Aead {
 public:
  explicit SodiumAes(const CipherKey& key) { crypto_aead_aes256gcm_beforenm(&key_, key.data()); }
  ~SodiumAes() override { sodium_memzero(&key_, sizeof key_); }

  void seal(const CipherNonce& nonce, std::span<const unsigned char> head,
            std::span<unsigned char> text) override {
    crypto_aead_aes256gcm_encrypt_afternm(text.data(), nullptr, text.data(),
                                          text.size() - kTagBytes, head.data(), head.size(),
                                          nullptr, nonce.data(), &key_);
  }
  bool open(const CipherNonce& nonce, std::span<const unsigned char> head,
            std::span<unsigned char> text) override {
    return crypto_aead_aes256gcm_decrypt_afternm(text.data(), nullptr, nullptr, text.data(),
                                                 text.size(), head.data(), head.size(),
                                                 nonce.data(), &key_) == 0;
  }

 private:
  crypto_aead_aes256gcm_state key_;
};

class SodiumChaCha final : public Aead {
 public:
  explicit SodiumChaCha(const CipherKey& key) : key_(key) {}
  ~SodiumChaCha() override { sodium_memzero(key_.data(), key_.size()); }

  void seal(const CipherNonce& nonce, std::span<const unsigned char> head,
            std::span<unsigned char> text) override {
    crypto_aead_chacha20poly1305_ietf_encrypt(text.data(), nullptr, text.data(),
                                              text.size() - kTagBytes, head.data(), head.size(),
                                              nullptr, nonce.data(), key_.data());
  }
  bool open(const CipherNonce& nonce, std::span<const unsigned char> head,
            std::span<unsigned char> text) override {
    return crypto_aead_chacha20poly1305_ietf_decrypt(text.data(), nullptr, nullptr, text.data(),
                                                     text.size(), head.data(), head.size(),
                                                     nonce.data(), key_.data()) == 0;
  }

 private:
  CipherKey key_;
};

bool sodium_has_aes() {
  // It looks at the processor, once; what it has set up already it leaves.
  if (sodium_init() < 0) throw std::runtime_error("libsodium cannot be used");
  return crypto_aead_aes256gcm_is_available() != 0;
}

}  // namespace

std::unique_ptr<Aead> make_sodium_aes(const CipherKey& key) {
  return sodium_has_aes() ? std::make_unique<SodiumAes>(key) : nullptr;
}

bool has_aes() {
  return sodium_has_aes();
}

std::unique_ptr<Aead> make_aead(Cipher cipher, const CipherKey& key) {
  switch (cipher) {
    case Cipher::kAes256Gcm: {
      std::unique_ptr<Aead> aes = make_openssl_aes(key);
      return aes != nullptr ? std::move(aes) : make_sodium_aes(key);
    }
    case Cipher::kChaCha20Poly1305:
      return std::make_unique<SodiumChaCha>(key);
  }
  return nullptr;
}

}  // namespace ringpress::ring::transport
