// Records of encrypted sockets: what is sealed is opened, however it is cut; nothing else is.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "ring/transport/common/hello.h"
#include "ring/transport/common/stream.h"

namespace ringpress::ring::transport {
namespace {

std::vector<Cipher> ciphers() {
  std::vector<Cipher> all{Cipher::kChaCha20Poly1305};
  if (has_aes()) all.push_back(Cipher::kAes256Gcm);
  return all;
}

SessionKeys keys_of(Cipher cipher) {
  SessionKeys keys;
  keys.cipher = cipher;
  keys.outgoing.fill(1);
  keys.incoming.fill(2);
  return keys;
}

SessionKeys other_side(SessionKeys keys) {
  std::swap(keys.outgoing, keys.incoming);
  return keys;
}

std::pair<Fd, Fd> socket_pair() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

iovec piece(void* memory, std::size_t bytes) {
  return {memory, bytes};
}

TEST(Records, BothWaysToAesGiveTheSameBytes) {
  std::mt19937 engine(3);
  CipherKey key;
  for (auto& byte : key) byte = static_cast<unsigned char>(engine());
  const auto sodium = make_sodium_aes(key);
  const auto openssl = make_openssl_aes(key);
  if (sodium == nullptr || openssl == nullptr) GTEST_SKIP() << "this machine has not both";
  const std::vector<unsigned char> head{1, 2, 3, 4};
  for (int i = 0; i < 200; ++i) {
    CipherNonce nonce{};
    nonce[0] = static_cast<unsigned char>(i);
    std::vector<unsigned char> plain(engine() % 5000);
    for (auto& byte : plain) byte = static_cast<unsigned char>(engine());
    std::vector<unsigned char> one = plain;
    one.resize(plain.size() + kTagBytes);
    std::vector<unsigned char> other = one;
    sodium->seal(nonce, head, one);
    openssl->seal(nonce, head, other);
    ASSERT_EQ(one, other);
    std::vector<unsigned char> changed = one;
    changed[engine() % changed.size()] ^= 4;
    std::vector<unsigned char> again = changed;
    EXPECT_FALSE(sodium->open(nonce, head, again));
    EXPECT_FALSE(openssl->open(nonce, head, changed));
    ASSERT_TRUE(sodium->open(nonce, head, other));
    ASSERT_TRUE(openssl->open(nonce, head, one));
    one.resize(plain.size());
    other.resize(plain.size());
    EXPECT_EQ(one, plain);
    EXPECT_EQ(other, plain);
  }
}

TEST(Records, AStreamArrivesHoweverItIsCut) {
  std::mt19937 engine(7);
  for (const Cipher cipher : ciphers()) {
    auto [one, other] = socket_pair();
    Stream out(std::move(one), keys_of(cipher));
    Stream in(std::move(other), other_side(keys_of(cipher)));
    std::vector<std::uint32_t> sent(300000), received(sent.size());
    std::iota(sent.begin(), sent.end(), 5u);
    auto* const from = reinterpret_cast<std::byte*>(sent.data());
    auto* const to = reinterpret_cast<std::byte*>(received.data());
    const std::size_t bytes = sent.size() * sizeof sent[0];
    std::size_t gone = 0, come = 0;
    Count wire_sent, wire_received;
    while (come < bytes) {
      // Until some of a record's bytes have gone, what is offered begins with them.
      if (gone < bytes) {
        const std::size_t first = std::min<std::size_t>(bytes - gone, 1 + engine() % 100);
        const std::size_t begun = out.begun_bytes();
        const std::size_t more = begun > first ? begun - first : engine() % 100000;
        iovec pieces[2] = {piece(from + gone, first),
                           piece(from + gone + first, std::min(more, bytes - gone - first))};
        gone += out.send(pieces, wire_sent).bytes;
      }
      const std::size_t head = std::min<std::size_t>(bytes - come, engine() % 300);
      const std::size_t body = std::min<std::size_t>(bytes - come - head, engine() % 200000);
      iovec pieces[2] = {piece(to + come, head), piece(to + come + head, body)};
      const Result<Transferred> got = in.receive(pieces, wire_received);
      ASSERT_TRUE(got.is_ok()) << got.status().message();
      ASSERT_FALSE(got.value().closed);
      come += got.value().bytes;
    }
    EXPECT_EQ(sent, received);
    EXPECT_EQ(wire_sent.value(), wire_received.value());
    EXPECT_GT(wire_sent.value(), bytes);
  }
}

/// Records of one cipher, as bytes.
class SealedRecords {
 public:
  explicit SealedRecords(Cipher cipher, int count = 3) : keys_(keys_of(cipher)) {
    RecordCipher sealer(cipher, keys_.outgoing);
    for (int i = 0; i < count; ++i) {
      std::vector<std::byte> record(kRecordHeadBytes + kPlain + kTag, std::byte(i));
      record[0] = std::byte{kPlain};
      record[1] = record[2] = record[3] = std::byte{0};
      sealer.seal(record.data(), kPlain);
      records_.push_back(record);
    }
  }

  std::vector<std::byte>& record(int index) { return records_[static_cast<std::size_t>(index)]; }

  /// Ok where all of them are opened, in this order; 0 bytes: more is waited for.
  Result<std::size_t> open(const std::vector<std::vector<std::byte>>& records) const {
    auto [one, other] = socket_pair();
    for (const auto& record : records) {
      EXPECT_EQ(send_bytes(one.get(), record.data(), record.size()).bytes, record.size());
    }
    Stream in(std::move(other), other_side(keys_));
    std::size_t opened = 0;
    for (;;) {
      std::byte into[kPlain];
      iovec pieces[] = {piece(into, sizeof into)};
      Count wire;
      RINGPRESS_ASSIGN_OR_RETURN(const Transferred got, in.receive(pieces, wire));
      if (got.bytes == 0) return opened;
      for (std::size_t i = 0; i < got.bytes; ++i) {
        EXPECT_EQ(into[i], std::byte(opened / kPlain));
      }
      opened += got.bytes;
    }
  }

  static constexpr std::size_t kPlain = 100;
  static constexpr std::size_t kTag = 16;

 private:
  SessionKeys keys_;
  std::vector<std::vector<std::byte>> records_;
};

TEST(Records, NothingElseIsOpened) {
  for (const Cipher cipher : ciphers()) {
    SealedRecords sealed(cipher);
    const auto first = sealed.record(0), second = sealed.record(1), third = sealed.record(2);
    EXPECT_EQ(sealed.open({first, second, third}).value(), 3 * SealedRecords::kPlain);
    // One that is there twice, is left out, or comes too early.
    for (const auto& order : {std::vector{first, first}, {first, third}, {second, first}}) {
      EXPECT_EQ(sealed.open(order).status().code(), Code::kCorrupt);
    }
    // Any bit of the record.
    for (std::size_t at = 0; at < first.size(); ++at) {
      auto changed = first;
      changed[at] ^= std::byte(1 << (at % 8));
      const Result<std::size_t> opened = sealed.open({changed, second});
      // A length that is too large waits for more, and then does not open either.
      if (opened.is_ok()) {
        EXPECT_LT(at, kRecordHeadBytes);
        EXPECT_EQ(opened.value(), 0u);
      }
    }
    // A length of nothing, and one that is too large for any.
    auto changed = first;
    changed[0] = std::byte{0};
    EXPECT_EQ(sealed.open({changed}).status().code(), Code::kCorrupt);
    changed[3] = std::byte{1};
    EXPECT_EQ(sealed.open({changed}).status().code(), Code::kCorrupt);
  }
}

TEST(Records, KeysFollowEachOther) {
  for (const Cipher cipher : ciphers()) {
    const CipherKey key = keys_of(cipher).outgoing;
    RecordCipher sealer(cipher, key), opener(cipher, key);
    std::vector<std::byte> record(kRecordHeadBytes + 1 + 16);
    std::vector<std::byte> first;
    for (std::uint64_t i = 0; i <= kRecordsOfKey + 1; ++i) {
      record[0] = std::byte{1};
      record[kRecordHeadBytes] = std::byte{9};
      sealer.seal(record.data(), 1);
      if (i == 0) first = record;
      ASSERT_TRUE(opener.open(record.data(), 1)) << i;
      ASSERT_EQ(record[kRecordHeadBytes], std::byte{9});
    }
    EXPECT_NE(next_key(key), key);
    EXPECT_NE(next_key(next_key(key)), next_key(key));
  }
}

TEST(Records, BothSidesMakeTheSameKeys) {
  Secret secret{};
  secret.fill(std::byte{5});
  Identity identity;
  identity.secret = secret;
  const HelloPurpose purpose = data_purpose(true);
  ConnectorHandshake connector(make_hello(identity, purpose), secret);
  AcceptorHandshake acceptor(make_hello(identity, purpose), secret);
  const auto second = acceptor.answer(connector.first());
  ASSERT_TRUE(second.has_value());
  ASSERT_TRUE(connector.answer(*second).has_value());
  const SessionKeys ours = connector.keys().value();
  const SessionKeys theirs = acceptor.keys().value();
  EXPECT_EQ(ours.cipher, theirs.cipher);
  EXPECT_EQ(ours.outgoing, theirs.incoming);
  EXPECT_EQ(ours.incoming, theirs.outgoing);
  EXPECT_NE(ours.incoming, ours.outgoing);
  // Another connection of the same two has others.
  ConnectorHandshake again(make_hello(identity, purpose), secret);
  AcceptorHandshake of_again(make_hello(identity, purpose), secret);
  ASSERT_TRUE(again.answer(*of_again.answer(again.first())).has_value());
  EXPECT_NE(again.keys()->outgoing, ours.outgoing);
}

TEST(Records, CiphersAndPlainConnectionsAreAgreedOn) {
  Hello plain, software, hardware;
  plain.purpose = static_cast<std::uint8_t>(HelloPurpose::kData);
  software.purpose = static_cast<std::uint8_t>(HelloPurpose::kEncryptedData);
  hardware.purpose = static_cast<std::uint8_t>(HelloPurpose::kEncryptedDataByAes);
  const Secret secret{};
  EXPECT_FALSE(connector_keys(secret, plain, plain).has_value());
  EXPECT_FALSE(connector_keys(secret, plain, hardware).has_value());
  EXPECT_FALSE(acceptor_keys(secret, software, plain).has_value());
  EXPECT_EQ(connector_keys(secret, software, hardware)->cipher, Cipher::kChaCha20Poly1305);
  EXPECT_EQ(acceptor_keys(secret, hardware, software)->cipher, Cipher::kChaCha20Poly1305);
  EXPECT_EQ(acceptor_keys(secret, hardware, hardware)->cipher, Cipher::kAes256Gcm);
  EXPECT_TRUE(is_data(plain, false));
  for (const Hello& hello : {software, hardware}) {
    EXPECT_TRUE(is_data(hello, true));
    EXPECT_FALSE(is_data(hello, false));
  }
  EXPECT_FALSE(is_data(plain, true));
}

}  // namespace
}  // namespace ringpress::ring::transport
