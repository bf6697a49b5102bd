#include "ring/bootstrap/message.h"

#include <algorithm>
#include <cstring>

#include "ringpress/internal/wire.h"

namespace ringpress::ring::bootstrap {
namespace {

void put_number(std::string& bytes, std::uint32_t number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::uint32_t get_number(const std::string& bytes, std::size_t at) {
  std::uint32_t number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

void put_text(std::string& bytes, const std::string& text) {
  std::string field = text.substr(0, kMaxAddressBytes);
  field.resize(kMaxAddressBytes, '\0');
  bytes += field;
}

std::string get_text(const std::string& bytes, std::size_t at) {
  const std::string field = bytes.substr(at, kMaxAddressBytes);
  return field.substr(0, std::min(field.find('\0'), field.size()));
}

void put_endpoint(std::string& bytes, const Endpoint& endpoint) {
  for (const std::string& address : endpoint.addresses) put_text(bytes, address);
  bytes.append(reinterpret_cast<const char*>(endpoint.identity.host.data()), sizeof(HostHash));
  bytes.append(reinterpret_cast<const char*>(endpoint.identity.machine.data()), sizeof(HostHash));
}

/// `bytes` holds kEndpointBytes from `at` on.
Endpoint get_endpoint(const std::string& bytes, std::size_t at) {
  Endpoint endpoint;
  for (std::string& address : endpoint.addresses) {
    address = get_text(bytes, at);
    at += kMaxAddressBytes;
  }
  const char* hashes = bytes.data() + at;
  std::memcpy(endpoint.identity.host.data(), hashes, sizeof(HostHash));
  std::memcpy(endpoint.identity.machine.data(), hashes + sizeof(HostHash), sizeof(HostHash));
  return endpoint;
}

constexpr std::size_t kJoinNumberBytes = 16;  // Of what every version says first.
constexpr std::size_t kJoinFixedBytes = kJoinNumberBytes + 8 + kEndpointBytes;
constexpr std::size_t kAnswerWordBytes = 4;

std::string with_prefix(std::uint32_t code, const std::string& body) {
  std::string bytes;
  put_number(bytes, code);
  put_number(bytes, static_cast<std::uint32_t>(body.size()));
  return bytes + body;
}

}  // namespace

Prefix unpack_prefix(const std::string& bytes) {
  return {get_number(bytes, 0), get_number(bytes, 4)};
}

Result<std::string> pack_join(const Join& join) {
  std::string body;
  const auto refusal_bytes = static_cast<std::uint32_t>(join.refusal.size());
  for (const std::uint32_t number : {join.protocol_version, join.library_version, join.rank,
                                     join.size, refusal_bytes, join.word}) {
    put_number(body, number);
  }
  put_endpoint(body, join.endpoint);
  body += join.refusal;
  for (const std::string& line : join.agreement) body += line + '\n';
  if (body.size() > kMaxJoinBytes) {
    return Status(Code::kInvalidArgument, "the settings that ranks compare are longer than 16 KiB");
  }
  return with_prefix(0, body);
}

Result<Join> unpack_join(const std::string& body) {
  const bool has_numbers = body.size() >= kJoinNumberBytes && body.size() <= kMaxJoinBytes;
  const bool is_ours = has_numbers && get_number(body, 0) == kProtocolVersion;
  if (!has_numbers || (is_ours && body.size() < kJoinFixedBytes)) {
    return Status(Code::kCorrupt, "a join message has a wrong length");
  }
  Join join;
  join.protocol_version = get_number(body, 0);
  join.library_version = get_number(body, 4);
  join.rank = get_number(body, 8);
  join.size = get_number(body, 12);
  if (!is_ours) return join;
  join.word = get_number(body, 20);
  join.endpoint = get_endpoint(body, 24);
  join.refusal = body.substr(kJoinFixedBytes, get_number(body, 16));
  std::size_t start = kJoinFixedBytes + join.refusal.size();
  while (start < body.size()) {
    const std::size_t end = std::min(body.find('\n', start), body.size());
    join.agreement.push_back(body.substr(start, end - start));
    start = end + 1;
  }
  return join;
}

std::string pack_answer(const Answer& answer) {
  if (!answer.status.is_ok()) {
    return with_prefix(static_cast<std::uint32_t>(answer.status.code()),
                       answer.status.message().substr(0, kMaxReasonBytes));
  }
  std::string body;
  put_number(body, answer.word);
  for (const Endpoint& endpoint : answer.endpoints) put_endpoint(body, endpoint);
  return with_prefix(0, body);
}

std::size_t max_answer_bytes(std::uint32_t size) {
  return std::max(kMaxReasonBytes, kAnswerWordBytes + size * kEndpointBytes);
}

Result<Answer> unpack_answer(const Prefix& prefix, const std::string& body, std::uint32_t size) {
  Answer answer;
  if (prefix.code != 0) {
    const bool known = prefix.code <= static_cast<std::uint32_t>(kLastCode);
    answer.status = Status(known ? static_cast<Code>(prefix.code) : Code::kInternal, body);
    return answer;
  }
  if (body.size() != kAnswerWordBytes + size * kEndpointBytes) {
    return Status(Code::kCorrupt, "the rendezvous answered with a table of a wrong length");
  }
  answer.word = get_number(body, 0);
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    answer.endpoints.push_back(get_endpoint(body, kAnswerWordBytes + rank * kEndpointBytes));
  }
  return answer;
}

}  // namespace ringpress::ring::bootstrap
