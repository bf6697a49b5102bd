#include "ring/bootstrap/rendezvous.h"

#include <pthread.h>

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "ring/bootstrap/agreement.h"
#include "ring/bootstrap/listener_watch.h"
#include "ring/bootstrap/member.h"
#include "ring/bootstrap/unique_id.h"
#include "ring/transport/common/lobby.h"
#include "ringpress/internal/log.h"

namespace ringpress::ring::bootstrap {
namespace {

using std::chrono::milliseconds;
using transport::Fd;
using transport::HandshakeSocket;
using transport::Lobby;
using transport::Reactor;

// How many ranks there are is not known before the first has come.
constexpr std::size_t kRanksAtOnce = 1024;
constexpr milliseconds kPause{250};  // Between two looks at what wakes nobody.
constexpr milliseconds kPauseWhenFull{20};
// How long those who come after a failure hear of it.
constexpr std::chrono::seconds kAfterFailure{5};

/// Connections that did not prove to know the job's secret.
class Strangers {
 public:
  /// One warning is enough, whoever knocks how often.
  void note(const HandshakeSocket& socket) {
    ++refused_;
    const bool has_other_secret = socket.stranger() == HandshakeSocket::Stranger::kOtherSecret;
    const bool is_first = has_other_secret && foreign_.empty();
    if (is_first) foreign_ = "; " + socket.refusal();
    log_line(is_first ? LogLevel::kWarn : LogLevel::kInfo, "rendezvous: dropped a connection: %s",
             socket.refusal().c_str());
  }
  /// "; " and who came first with another secret; empty: nobody.
  const std::string& foreign() const { return foreign_; }
  /// Those of which nothing else is said.
  std::size_t unnamed() const { return foreign_.empty() ? refused_ : 0; }

 private:
  std::size_t refused_ = 0;
  std::string foreign_;
};

class Server {
 public:
  explicit Server(const ServeOptions& options)
      : timeout_(options.timeout),
        before_first_(options.before_first),
        lobby_(reactor_, kRanksAtOnce,
               [this](const HandshakeSocket& socket) { strangers_.note(socket); }) {}

  /// Notices if this rank, which listens there until it comes, goes instead.
  void watch(std::uint32_t rank, const std::string& address) {
    watches_[rank] = std::make_unique<ListenerWatch>(reactor_, address);
  }

  Status start(Fd listener, const Secret& secret) {
    RINGPRESS_RETURN_IF_ERROR(reactor_.ready());
    Identity identity;
    identity.secret = secret;
    return lobby_.open(std::move(listener), identity, HelloPurpose::kRendezvous);
  }

  /// See Rendezvous. Any thread.
  void call_off(const Status& why) {
    {
      const std::lock_guard lock(mutex_);
      called_off_ = why;
    }
    reactor_.wake();
  }

  void serve() {
    Deadline deadline = Clock::now() + before_first_;
    bool is_final = false;  // No longer that of the first one's coming.
    while (!everybody_answered()) {
      const Deadline now = Clock::now();
      if (now >= deadline && !out_of_time(now, deadline)) return;
      const milliseconds pause = lobby_.is_full() ? kPauseWhenFull : kPause;
      reactor_.dispatch_until(std::min(deadline, now + pause));
      admit();
      if (read_messages() && !is_final) {  // Several may come at once.
        is_final = true;
        deadline = Clock::now() + timeout_;
      }
      if (notice_call_off()) {
        is_final = true;
        deadline = std::min(deadline, Clock::now() + kAfterFailure);
      }
      notice_gone_ranks();
      notice_gone_members();
      answer_if_known();
    }
  }

 private:
  void admit() {
    while (const std::unique_ptr<HandshakeSocket> socket = lobby_.take()) {
      const std::uint32_t rank = socket->peer().rank;
      members_.push_back(std::make_unique<Member>(reactor_, socket->take_socket(), rank));
      members_.back()->on_events(0);
    }
  }

  /// True if a rank joined.
  bool read_messages() {
    bool any = false;
    std::string body;
    for (auto& member : members_) {
      if (!member->take_message(body)) continue;
      any = true;
      const Result<Join> join = unpack_join(body);
      Status verdict = join.is_ok() ? compare_join(joined_, join.value()) : join.status();
      if (verdict.is_ok()) joined_[join.value().rank] = join.value();
      if (join.is_ok()) watches_.erase(join.value().rank);
      if (size_ == 0 && join.is_ok()) size_ = std::min(join.value().size, kMaxRanks);
      if (answer_.status.is_ok()) answer_.status = verdict;
    }
    return any;
  }

  /// Everybody has come, or it is clear why there is no communicator.
  void answer_if_known() {
    const bool complete = size_ != 0 && joined_.size() == size_;
    if (complete) {
      answer_.endpoints.clear();
      answer_.word = joined_.at(0).word;
      for (const auto& [rank, join] : joined_) answer_.endpoints.push_back(join.endpoint);
    }
    if (complete || !answer_.status.is_ok()) answer_all();
  }

  void answer_all() {
    // Who comes now comes for the next communicator, which may meet at the same address.
    if (answer_.status.is_ok()) lobby_.close();
    const std::string bytes = pack_answer(answer_);
    for (auto& member : members_) member->answer(bytes);
  }

  /// True once.
  bool notice_call_off() {
    const std::lock_guard lock(mutex_);
    if (called_off_.is_ok()) return false;
    if (answer_.status.is_ok()) answer_.status = called_off_;
    called_off_ = Status::ok();
    return true;
  }

  /// Those who will not come.
  void notice_gone_ranks() {
    for (const auto& [rank, watch] : watches_) {
      if (!watch->has_closed() || !answer_.status.is_ok()) continue;
      answer_.status =
          Status(Code::kPeerLost, "rank " + std::to_string(rank) +
                                      " ended, or gave up, before it came" + strangers_.foreign());
    }
  }

  /// Those who came and do not wait for the others.
  void notice_gone_members() {
    for (const auto& member : members_) {
      if (!member->left_early() || !answer_.status.is_ok()) continue;
      answer_.status = Status(Code::kPeerLost, "rank " + std::to_string(member->rank()) +
                                                   " ended, or gave up, before all had come");
    }
  }

  /// Counts ranks that have got an answer or never will; those who come after a failure get it too.
  bool everybody_answered() const {
    std::size_t finished = 0;
    for (const auto& [rank, watch] : watches_) {
      if (watch->has_closed()) ++finished;
    }
    for (const auto& member : members_) {
      if (member->answered() && member->finished()) ++finished;
    }
    return size_ != 0 && finished >= size_;
  }

  /// Tells those who came who is missing. False when there is nothing more to wait for.
  bool out_of_time(Deadline now, Deadline& deadline) {
    if (!answer_.status.is_ok() || size_ == 0) return false;
    const Status missing = missing_ranks(joined_, size_, timeout_.count(), strangers_.unnamed());
    answer_.status = Status(missing.code(), missing.message() + strangers_.foreign());
    answer_all();
    deadline = now + kAfterFailure;
    return true;
  }

  Reactor reactor_;
  const milliseconds timeout_;
  const milliseconds before_first_;
  Lobby lobby_;
  std::list<std::unique_ptr<Member>> members_;
  std::map<std::uint32_t, Join> joined_;
  std::map<std::uint32_t, std::unique_ptr<ListenerWatch>> watches_;  // Of those who have not come.
  std::uint32_t size_ = 0;
  Strangers strangers_;
  Answer answer_;
  std::mutex mutex_;
  Status called_off_;  // Guarded by mutex_. Not ok: not noticed yet.
};

void run(const std::shared_ptr<Server>& server) {
  pthread_setname_np(pthread_self(), "rp-rendezvous");
  try {
    server->serve();
  } catch (const std::exception& error) {
    log_line(LogLevel::kError, "rendezvous ended: %s", error.what());
  }
}

class OpenSocket final : public ringpress::Rendezvous {
 public:
  OpenSocket(const IdBytes& id, Fd listener, const Secret& secret)
      : id_(id), listener_(std::move(listener)), secret_(secret) {}

  const ringpress::UniqueId& id() const override { return id_; }

  Status serve(const ServeOptions& options) override {
    RINGPRESS_EXPECTS(!has_served_, "a rendezvous serves once");
    has_served_ = true;
    if (!listener_.valid()) RINGPRESS_RETURN_IF_ERROR(take_port_again());
    // Again, where it listens already.
    RINGPRESS_RETURN_IF_ERROR(transport::start_listening(listener_.get()));
    auto server = std::make_shared<Server>(options);
    RINGPRESS_RETURN_IF_ERROR(server->start(std::move(listener_), secret_));
    for (std::size_t rank = 0; rank < options.ranks.size(); ++rank) {
      if (options.ranks[rank] == id_) continue;
      RINGPRESS_ASSIGN_OR_RETURN(const UniqueId endpoint, unpack_id(options.ranks[rank]));
      server->watch(static_cast<std::uint32_t>(rank), endpoint.address);
    }
    try {
      std::thread(run, server).detach();
    } catch (const std::system_error& error) {
      return Status(Code::kSystem,
                    std::string("cannot start the rendezvous thread: ") + error.what());
    }
    server_ = server;
    return Status::ok();
  }

  void call_off(const Status& why) override {
    if (const std::shared_ptr<Server> server = server_.lock()) server->call_off(why);
  }

  void give_back_port() override { listener_.reset(); }

 private:
  Status take_port_again() {
    RINGPRESS_ASSIGN_OR_RETURN(const UniqueId endpoint, unpack_id(id_));
    RINGPRESS_ASSIGN_OR_RETURN(const auto address, transport::parse_address(endpoint.address));
    Result<Fd> listener = transport::bind_to(address);
    if (!listener.is_ok()) {
      return Status(listener.status().code(),
                    "its port " + endpoint.address +
                        ", given back for a while, is not free: " + listener.status().message());
    }
    listener_ = std::move(listener).value();
    return Status::ok();
  }

  const IdBytes id_;
  Fd listener_;  // Not valid: the port was given back, or somebody serves there.
  const Secret secret_;
  bool has_served_ = false;
  std::weak_ptr<Server> server_;  // Its thread's.
};

}  // namespace

Result<std::unique_ptr<ringpress::Rendezvous>> prepare_rendezvous(const AddressChoice& choice,
                                                                  const std::string& extra_secret,
                                                                  Listens listens) {
  UniqueId id;
  transport::fill_random(id.secret.data(), id.secret.size());
  RINGPRESS_ASSIGN_OR_RETURN(const std::string host, interface_address(choice));
  RINGPRESS_ASSIGN_OR_RETURN(const auto wanted, transport::parse_address(host + ":0"));
  RINGPRESS_ASSIGN_OR_RETURN(Fd listener, transport::bind_to(wanted));
  if (listens == Listens::kAtOnce) {
    RINGPRESS_RETURN_IF_ERROR(transport::start_listening(listener.get()));
  }
  RINGPRESS_ASSIGN_OR_RETURN(const auto address, transport::local_address(listener.get()));
  id.address = transport::to_text(address);
  RINGPRESS_ASSIGN_OR_RETURN(const IdBytes bytes, pack_id(id));
  return std::unique_ptr<ringpress::Rendezvous>(std::make_unique<OpenSocket>(
      bytes, std::move(listener), transport::mix_secret(id.secret, extra_secret)));
}

Status serve_at(const UniqueId& id, Fd listener, const std::string& extra_secret,
                const ServeOptions& options) {
  RINGPRESS_ASSIGN_OR_RETURN(const IdBytes bytes, pack_id(id));
  OpenSocket socket(bytes, std::move(listener), transport::mix_secret(id.secret, extra_secret));
  return socket.serve(options);
}

}  // namespace ringpress::ring::bootstrap
