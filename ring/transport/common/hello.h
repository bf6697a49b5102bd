// The three hellos that open a connection (wire.h), as bytes. No sockets: a connection feeds the
// bytes in and sends out what comes back.
#ifndef RING_TRANSPORT_COMMON_HELLO_H_
#define RING_TRANSPORT_COMMON_HELLO_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "ring/transport/common/session_keys.h"
#include "ringpress/internal/transport.h"
#include "ringpress/internal/wire.h"

namespace ringpress::ring::transport {

inline constexpr std::size_t kHelloBytes = sizeof(Hello);
using HelloBytes = std::array<std::byte, kHelloBytes>;
using Nonce = std::array<std::byte, 16>;

/// Bytes from the operating system's random source.
void fill_random(void* memory, std::size_t bytes);

/// The job's secret with a passphrase of the user mixed in; unchanged when that is empty.
Secret mix_secret(const Secret& secret, const std::string& passphrase);

/// A hello of this process with a fresh nonce, not yet sealed.
Hello make_hello(const Identity& identity, HelloPurpose purpose);

/// Sets the mac: keyed BLAKE2b-128 over bytes 0..47 and `challenge`.
void seal_hello(Hello& hello, const Secret& secret, const Nonce& challenge);

/// Checks magic and mac, in constant time. False for anything that does not know the secret.
bool open_hello(const HelloBytes& bytes, const Secret& secret, const Nonce& challenge,
                Hello& hello);

/// True for what looks like a hello, whatever its secret.
bool is_hello(const HelloBytes& bytes);

HelloBytes to_bytes(const Hello& hello);

/// The side that connects: sends first(), gets the answer, sends the result of answer().
class ConnectorHandshake {
 public:
  ConnectorHandshake(const Hello& hello, const Secret& secret);
  HelloBytes first() const;
  /// The third hello, or nothing when the acceptor does not know the secret.
  std::optional<HelloBytes> answer(const HelloBytes& second);
  /// What the acceptor said of itself, after answer().
  const Hello& peer() const { return peer_; }
  /// Of an encrypted data socket, after answer(). None: it is not encrypted.
  std::optional<SessionKeys> keys() const { return connector_keys(secret_, hello_, peer_); }

 private:
  Hello hello_;
  Secret secret_;
  Hello peer_;
};

/// The side that accepts: gets the first hello, sends the result of answer(), gets the third.
class AcceptorHandshake {
 public:
  AcceptorHandshake(const Hello& hello, const Secret& secret);
  /// The second hello, or nothing when the connector is a stranger.
  std::optional<HelloBytes> answer(const HelloBytes& first);
  /// True when the connector has proved that it knows the secret now, not only once.
  bool confirm(const HelloBytes& third) const;
  const Hello& peer() const { return peer_; }
  /// As ConnectorHandshake::keys().
  std::optional<SessionKeys> keys() const { return acceptor_keys(secret_, peer_, hello_); }

 private:
  Hello hello_;
  Secret secret_;
  Hello peer_;
};

}  // namespace ringpress::ring::transport

#endif  // RING_TRANSPORT_COMMON_HELLO_H_
