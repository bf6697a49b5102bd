// AES-256-GCM of the system's OpenSSL 3, by the functions of its EVP interface that it exports.
// They have kept their types since 3.0.
#include <dlfcn.h>

#include "ring/transport/common/aead.h"

namespace ringpress::ring::transport {
namespace {

struct LibraryContext;
struct EvpCipher;
struct EvpContext;

constexpr std::uint64_t kNoAtExit = 0x00080000;   // OPENSSL_INIT_NO_ATEXIT
constexpr std::uint64_t kNoConfiguration = 0x80;  // OPENSSL_INIT_NO_LOAD_CONFIG
constexpr int kGetTag = 0x10, kSetTag = 0x11;     // EVP_CTRL_AEAD_...
constexpr const char* kLibrary = "libcrypto.so.3";

/// What is used of it. Loaded once, and never unloaded: it has handlers of its own.
struct OpenSsl {
  OpenSsl() {
    void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto find = [library](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    const bool has_all = find(init, "OPENSSL_init_crypto") &&
                         find(new_library, "OSSL_LIB_CTX_new") && find(fetch, "EVP_CIPHER_fetch") &&
                         find(new_context, "EVP_CIPHER_CTX_new") &&
                         find(free_context, "EVP_CIPHER_CTX_free") &&
                         find(begin, "EVP_CipherInit_ex") && find(update, "EVP_CipherUpdate") &&
                         find(end, "EVP_CipherFinal_ex") && find(control, "EVP_CIPHER_CTX_ctrl");
    if (!has_all || init(kNoAtExit | kNoConfiguration, nullptr) != 1) return;
    // A context of this library's own: what the program does to OpenSSL's is nothing to it.
    LibraryContext* const context = new_library();
    if (context != nullptr) aes = fetch(context, "AES-256-GCM", nullptr);
  }

  int (*init)(std::uint64_t, const void*) = nullptr;
  LibraryContext* (*new_library)() = nullptr;
  EvpCipher* (*fetch)(LibraryContext*, const char*, const char*) = nullptr;
  EvpContext* (*new_context)() = nullptr;
  void (*free_context)(EvpContext*) = nullptr;
  int (*begin)(EvpContext*, const EvpCipher*, void*, const unsigned char*, const unsigned char*,
               int) = nullptr;
  int (*update)(EvpContext*, unsigned char*, int*, const unsigned char*, int) = nullptr;
  int (*end)(EvpContext*, unsigned char*, int*) = nullptr;
  int (*control)(EvpContext*, int, int, void*) = nullptr;
  EvpCipher* aes = nullptr;  // Null: it cannot be used.
};

const OpenSsl& openssl() {
  static const OpenSsl& library = *new OpenSsl;
  return library;
}

class OpensslAes final : public Aead {
 public:
  explicit OpensslAes(const CipherKey& key) : context_(ssl_.new_context()) {
    is_ready_ =
        context_ != nullptr && ssl_.begin(context_, ssl_.aes, nullptr, key.data(), nullptr, 1) == 1;
  }
  ~OpensslAes() override { ssl_.free_context(context_); }
  bool is_ready() const { return is_ready_; }

  void seal(const CipherNonce& nonce, std::span<const unsigned char> head,
            std::span<unsigned char> text) override {
    const std::span<unsigned char> plain = text.first(text.size() - kTagBytes);
    int bytes = 0;
    ssl_.begin(context_, nullptr, nullptr, nullptr, nonce.data(), 1);
    ssl_.update(context_, nullptr, &bytes, head.data(), static_cast<int>(head.size()));
    ssl_.update(context_, plain.data(), &bytes, plain.data(), static_cast<int>(plain.size()));
    ssl_.end(context_, plain.data() + plain.size(), &bytes);
    ssl_.control(context_, kGetTag, kTagBytes, plain.data() + plain.size());
  }
  bool open(const CipherNonce& nonce, std::span<const unsigned char> head,
            std::span<unsigned char> text) override {
    const std::span<unsigned char> sealed = text.first(text.size() - kTagBytes);
    unsigned char* const tag = sealed.data() + sealed.size();
    int bytes = 0;
    return ssl_.begin(context_, nullptr, nullptr, nullptr, nonce.data(), 0) == 1 &&
           ssl_.control(context_, kSetTag, kTagBytes, tag) == 1 &&
           ssl_.update(context_, nullptr, &bytes, head.data(), static_cast<int>(head.size())) ==
               1 &&
           ssl_.update(context_, sealed.data(), &bytes, sealed.data(),
                       static_cast<int>(sealed.size())) == 1 &&
           ssl_.end(context_, tag, &bytes) == 1;
  }

 private:
  const OpenSsl& ssl_ = openssl();
  EvpContext* const context_;
  bool is_ready_ = false;
};

}  // namespace

std::unique_ptr<Aead> make_openssl_aes(const CipherKey& key) {
  if (openssl().aes == nullptr) return nullptr;
  auto aes = std::make_unique<OpensslAes>(key);
  return aes->is_ready() ? std::move(aes) : nullptr;
}

}  // namespace ringpress::ring::transport
