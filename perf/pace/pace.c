/* Preloaded into a program, limits the rate at which it sends over TCP: the stand-in for a shaped
 * link where the kernel's traffic control is out of reach (perf/shaped.sh).
 *
 * One token bucket for the whole process. A call may send when the bucket is not empty and then
 * pays for what it sent, if need be with debt; so the long-run rate is right whatever the sizes.
 * Every call waits until the debt is paid, on non-blocking sockets too: to report EAGAIN for a
 * socket that is writable would leave edge-triggered event loops waiting for ever. Small messages
 * (handshakes) are never held back: they only add to the debt.
 *
 * PACE_BYTES_PER_SECOND  the rate; nothing is limited when it is not set
 * PACE_BURST_BYTES       size of the bucket, 262144 if not set */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const double kDefaultBurstBytes = 262144;
static const size_t kSmallBytes = 1024;

typedef ssize_t (*SendFunction)(int, const void*, size_t, int);
typedef ssize_t (*SendMessageFunction)(int, const struct msghdr*, int);
typedef ssize_t (*WriteFunction)(int, const void*, size_t);
typedef ssize_t (*WriteVectorFunction)(int, const struct iovec*, int);

static SendFunction next_send;
static SendMessageFunction next_sendmsg;
static WriteFunction next_write;
static WriteVectorFunction next_writev;

static pthread_mutex_t bucket_mutex = PTHREAD_MUTEX_INITIALIZER;
static double bytes_per_second; /* 0: nothing is limited. */
static double burst_bytes;
static double tokens;
static double last_refill_seconds;

static double now_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double number_from_environment(const char* name, double otherwise) {
  const char* text = getenv(name);
  return text == NULL ? otherwise : strtod(text, NULL);
}

__attribute__((constructor)) static void start(void) {
  *(void**)&next_send = dlsym(RTLD_NEXT, "send");
  *(void**)&next_sendmsg = dlsym(RTLD_NEXT, "sendmsg");
  *(void**)&next_write = dlsym(RTLD_NEXT, "write");
  *(void**)&next_writev = dlsym(RTLD_NEXT, "writev");
  burst_bytes = number_from_environment("PACE_BURST_BYTES", kDefaultBurstBytes);
  tokens = burst_bytes;
  last_refill_seconds = now_seconds();
  bytes_per_second = number_from_environment("PACE_BYTES_PER_SECOND", 0);
}

/* Seconds until the bucket is not empty. */
static double seconds_to_wait(void) {
  pthread_mutex_lock(&bucket_mutex);
  const double now = now_seconds();
  tokens += (now - last_refill_seconds) * bytes_per_second;
  if (tokens > burst_bytes) tokens = burst_bytes;
  last_refill_seconds = now;
  const double wait = tokens > 0 ? 0 : -tokens / bytes_per_second + 1e-6;
  pthread_mutex_unlock(&bucket_mutex);
  return wait;
}

static void pay(ssize_t bytes) {
  if (bytes <= 0) return;
  pthread_mutex_lock(&bucket_mutex);
  tokens -= (double)bytes;
  pthread_mutex_unlock(&bucket_mutex);
}

static void sleep_seconds(double seconds) {
  const struct timespec span = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&span, NULL);
}

static int is_limited(int descriptor) {
  if (bytes_per_second <= 0) return 0;
  const int saved_errno = errno;
  int type = 0;
  int domain = 0;
  socklen_t size = sizeof type;
  const int found = getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
                    getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0;
  errno = saved_errno;
  return found && type == SOCK_STREAM && (domain == AF_INET || domain == AF_INET6);
}

static void wait_for_turn(size_t bytes) {
  if (bytes <= kSmallBytes) return;
  double wait = seconds_to_wait();
  while (wait > 0) {
    sleep_seconds(wait);
    wait = seconds_to_wait();
  }
}

static size_t total_bytes(const struct iovec* pieces, size_t count) {
  size_t total = 0;
  for (size_t i = 0; i < count; ++i) total += pieces[i].iov_len;
  return total;
}

ssize_t send(int descriptor, const void* data, size_t bytes, int flags) {
  if (!is_limited(descriptor)) return next_send(descriptor, data, bytes, flags);
  wait_for_turn(bytes);
  const ssize_t sent = next_send(descriptor, data, bytes, flags);
  pay(sent);
  return sent;
}

ssize_t sendmsg(int descriptor, const struct msghdr* message, int flags) {
  if (!is_limited(descriptor)) return next_sendmsg(descriptor, message, flags);
  wait_for_turn(total_bytes(message->msg_iov, message->msg_iovlen));
  const ssize_t sent = next_sendmsg(descriptor, message, flags);
  pay(sent);
  return sent;
}

ssize_t write(int descriptor, const void* data, size_t bytes) {
  if (!is_limited(descriptor)) return next_write(descriptor, data, bytes);
  wait_for_turn(bytes);
  const ssize_t sent = next_write(descriptor, data, bytes);
  pay(sent);
  return sent;
}

ssize_t writev(int descriptor, const struct iovec* pieces, int count) {
  if (!is_limited(descriptor)) return next_writev(descriptor, pieces, count);
  wait_for_turn(total_bytes(pieces, (size_t)count));
  const ssize_t sent = next_writev(descriptor, pieces, count);
  pay(sent);
  return sent;
}
