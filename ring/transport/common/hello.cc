#include "ring/transport/common/hello.h"

#include <sodium.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "ringpress/version.h"

namespace ringpress::ring::transport {
namespace {

constexpr Nonce kNoChallenge{};

std::array<std::byte, 16> mac_of(const Hello& hello, const Secret& secret, const Nonce& challenge) {
  std::array<std::byte, offsetof(Hello, mac) + sizeof(Nonce)> message;
  std::memcpy(message.data(), &hello, offsetof(Hello, mac));
  std::memcpy(message.data() + offsetof(Hello, mac), challenge.data(), challenge.size());
  std::array<std::byte, 16> mac;
  crypto_generichash(reinterpret_cast<unsigned char*>(mac.data()), mac.size(),
                     reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                     reinterpret_cast<const unsigned char*>(secret.data()), secret.size());
  return mac;
}

/// A third hello is the first one again; only the mac differs.
bool same_but_mac(const Hello& a, const Hello& b) {
  return std::memcmp(&a, &b, offsetof(Hello, mac)) == 0;
}

}  // namespace

void fill_random(void* memory, std::size_t bytes) {
  auto* position = static_cast<char*>(memory);
  while (bytes > 0) {
    const ssize_t got = getrandom(position, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw std::runtime_error("the system gives no random bytes");
    position += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

Secret mix_secret(const Secret& secret, const std::string& passphrase) {
  if (passphrase.empty()) return secret;
  Secret mixed;
  crypto_generichash(reinterpret_cast<unsigned char*>(mixed.data()), mixed.size(),
                     reinterpret_cast<const unsigned char*>(passphrase.data()), passphrase.size(),
                     reinterpret_cast<const unsigned char*>(secret.data()), secret.size());
  return mixed;
}

Hello make_hello(const Identity& identity, HelloPurpose purpose) {
  Hello hello;
  hello.purpose = static_cast<std::uint8_t>(purpose);
  hello.library_version = kLibraryVersion;
  hello.rank = identity.rank;
  hello.world = identity.world;
  hello.configuration_hash = identity.configuration_hash;
  fill_random(hello.nonce.data(), hello.nonce.size());
  return hello;
}

void seal_hello(Hello& hello, const Secret& secret, const Nonce& challenge) {
  hello.mac = mac_of(hello, secret, challenge);
}

bool open_hello(const HelloBytes& bytes, const Secret& secret, const Nonce& challenge,
                Hello& hello) {
  std::memcpy(&hello, bytes.data(), sizeof hello);
  const std::array<std::byte, 16> expected = mac_of(hello, secret, challenge);
  const bool authentic = sodium_memcmp(expected.data(), hello.mac.data(), expected.size()) == 0;
  return authentic && hello.magic == kHelloMagic;
}

bool is_hello(const HelloBytes& bytes) {
  Hello hello;
  std::memcpy(&hello, bytes.data(), sizeof hello);
  return hello.magic == kHelloMagic;
}

HelloBytes to_bytes(const Hello& hello) {
  HelloBytes bytes;
  std::memcpy(bytes.data(), &hello, sizeof hello);
  return bytes;
}

ConnectorHandshake::ConnectorHandshake(const Hello& hello, const Secret& secret)
    : hello_(hello), secret_(secret) {
  seal_hello(hello_, secret_, kNoChallenge);
}

HelloBytes ConnectorHandshake::first() const {
  return to_bytes(hello_);
}

std::optional<HelloBytes> ConnectorHandshake::answer(const HelloBytes& second) {
  if (!open_hello(second, secret_, hello_.nonce, peer_)) return std::nullopt;
  seal_hello(hello_, secret_, peer_.nonce);
  return to_bytes(hello_);
}

AcceptorHandshake::AcceptorHandshake(const Hello& hello, const Secret& secret)
    : hello_(hello), secret_(secret) {}

std::optional<HelloBytes> AcceptorHandshake::answer(const HelloBytes& first) {
  if (!open_hello(first, secret_, kNoChallenge, peer_)) return std::nullopt;
  seal_hello(hello_, secret_, peer_.nonce);
  return to_bytes(hello_);
}

bool AcceptorHandshake::confirm(const HelloBytes& third) const {
  Hello again;
  return open_hello(third, secret_, hello_.nonce, again) && same_but_mac(again, peer_);
}

}  // namespace ringpress::ring::transport
