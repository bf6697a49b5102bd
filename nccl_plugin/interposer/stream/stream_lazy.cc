#include "nccl_plugin/interposer/stream/stream_lazy.h"

#include <span>
#include <utility>

namespace ringpress::nccl_plugin::interposer {
namespace {

/// What travels: which vote of the communicator it is, and the vote. Never 0.
std::uint64_t make_ballot(std::uint32_t number, LazyVote vote) {
  return std::uint64_t{number} << 32 | (static_cast<std::uint64_t>(vote) + 1);
}

/// Nothing else is sent, but the word comes from other processes.
Result<LazyVote> read_ballot(std::uint64_t word, std::uint32_t number) {
  const auto vote = static_cast<LazyVote>(static_cast<std::uint32_t>(word) - 1);
  if (word >> 32 != number) {
    return Status(Code::kMismatch, "ranks voted on different calls that may be put off");
  }
  switch (vote) {
    case LazyVote::kPutOff:
    case LazyVote::kSend:
    case LazyVote::kNotFinite:
      return vote;
  }
  return Status(Code::kMismatch, "a rank voted what there is not");
}

}  // namespace

Result<std::unique_ptr<StreamSums>> StreamSums::make(Device& device, const Watch& watch) {
  std::unique_ptr<StreamSums> sums(new StreamSums(device, watch));
  RINGPRESS_ASSIGN_OR_RETURN(sums->kernels_, device.make_models());
  RINGPRESS_ASSIGN_OR_RETURN(void* const on_device, device.allocate(sizeof(Measured)));
  sums->on_device_ = static_cast<Measured*>(on_device);
  RINGPRESS_ASSIGN_OR_RETURN(void* const on_host, device.allocate_host(sizeof(Measured)));
  sums->on_host_ = static_cast<Measured*>(on_host);
  RINGPRESS_ASSIGN_OR_RETURN(sums->left_, device.create_event());
  return sums;
}

StreamSums::~StreamSums() {
  if (left_ != nullptr) device_.destroy_event(left_);
  if (on_host_ != nullptr) device_.free_host(on_host_);
  if (on_device_ != nullptr) device_.free(on_device_);
}

Status StreamSums::enter(Stream stream) {
  stream_ = stream;
  return was_left_ ? device_.wait(stream, left_) : Status::ok();
}

Status StreamSums::leave() {
  was_left_ = true;
  return device_.record(left_, stream_);
}

float* StreamSums::allocate(std::size_t count) {
  const Result<void*> memory = device_.allocate(count * sizeof(float));
  if (!memory.is_ok()) return nullptr;
  auto* const sum = static_cast<float*>(memory.value());
  if (clear(sum, count).is_ok()) return sum;
  device_.free(sum);
  return nullptr;
}

Result<Lengths> StreamSums::measure(const GradientSpan& gradient, const float* sum) {
  RINGPRESS_RETURN_IF_ERROR(kernels_->measure_lengths(stream_, gradient, sum, on_device_->parts));
  volatile std::uint64_t* const is_pending = &on_host_->is_pending;
  *is_pending = 1;
  RINGPRESS_RETURN_IF_ERROR(
      device_.zero(stream_, &on_device_->is_pending, sizeof on_device_->is_pending));
  // One after the other: the word is not there before the parts are.
  RINGPRESS_RETURN_IF_ERROR(
      device_.copy(stream_, on_host_->parts, on_device_->parts, sizeof on_device_->parts));
  RINGPRESS_RETURN_IF_ERROR(device_.copy(stream_, &on_host_->is_pending, &on_device_->is_pending,
                                         sizeof on_device_->is_pending));
  RINGPRESS_RETURN_IF_ERROR(await_word(is_pending, stream_, watch_,
                                       "the gradients of a call that may be put off are not there",
                                       [](std::uint64_t word) { return word == 0; })
                                .status());
  LengthPart squares;
  for (const LengthPart& part : std::span(on_host_->parts)) {
    squares.value_squares += part.value_squares;
    squares.total_squares += part.total_squares;
  }
  return lengths_of(squares);
}

Status StreamSums::add(const GradientSpan& gradient, float* sum) {
  return kernels_->add_values(stream_, gradient, sum);
}

Status StreamSums::write_total(const GradientSpan& gradient, const float* sum, void* to) {
  return kernels_->write_total(stream_, gradient, sum, to);
}

Status StreamSums::clear(float* sum, std::size_t count) {
  return device_.zero(stream_, sum, count * sizeof(float));
}

Result<std::unique_ptr<StreamLazy>> StreamLazy::make(Device& device, const Settings& settings,
                                                     int rank, int size, Watch watch,
                                                     std::shared_ptr<CallSequence> sequence) {
  std::unique_ptr<StreamLazy> lazy(new StreamLazy(device, std::move(watch)));
  RINGPRESS_ASSIGN_OR_RETURN(lazy->sums_, StreamSums::make(device, lazy->watch_));
  RINGPRESS_ASSIGN_OR_RETURN(void* const word, device.allocate(sizeof *lazy->traveling_));
  lazy->traveling_ = static_cast<std::uint64_t*>(word);
  RINGPRESS_ASSIGN_OR_RETURN(void* const ballot, device.allocate_host(sizeof(Ballot)));
  lazy->ballot_ = static_cast<Ballot*>(ballot);
  lazy->calls_ =
      std::make_unique<LazyCalls>(settings, *lazy->sums_, rank, size, std::move(sequence));
  return lazy;
}

StreamLazy::~StreamLazy() {
  if (ballot_ != nullptr) device_.free_host(ballot_);
  if (traveling_ != nullptr) device_.free(traveling_);
}

Status StreamLazy::vote(const TensorCall& tensor, const void* values, Stream stream) {
  stream_ = stream;
  RINGPRESS_RETURN_IF_ERROR(sums_->enter(stream));
  RINGPRESS_ASSIGN_OR_RETURN(const LazyVote own, calls_->vote(tensor, values));
  // The last vote has been heard: nothing reads or writes the words any more.
  ballot_->sent = make_ballot(++votes_, own);
  return device_.copy(stream, traveling_, &ballot_->sent, sizeof ballot_->sent);
}

ncclResult_t StreamLazy::exchange(const ringpressRealNccl& real, ncclComm_t comm) {
  return real.AllReduce(traveling_, traveling_, 1, ncclUint64, ncclMax, comm,
                        static_cast<cudaStream_t>(stream_));
}

Result<LazyVote> StreamLazy::receive_votes() {
  volatile std::uint64_t* const received = &ballot_->received;
  *received = 0;
  RINGPRESS_RETURN_IF_ERROR(
      device_.copy(stream_, &ballot_->received, traveling_, sizeof ballot_->received));
  RINGPRESS_ASSIGN_OR_RETURN(
      const std::uint64_t word,
      await_word(received, stream_, watch_, "the votes on a call that may be put off have not come",
                 [](std::uint64_t seen) { return seen != 0; }));
  return read_ballot(word, votes_);
}

Result<LazyCalls::Decision> StreamLazy::decide(const TensorCall& tensor, void* receive) {
  RINGPRESS_ASSIGN_OR_RETURN(const LazyVote largest, receive_votes());
  RINGPRESS_ASSIGN_OR_RETURN(const LazyCalls::Decision decision, calls_->follow(largest));
  if (decision.is_put_off) {
    const std::size_t bytes = tensor.count * dtype_size(tensor.dtype);
    RINGPRESS_RETURN_IF_ERROR(device_.zero(stream_, receive, bytes));
  } else {
    if (decision.has_sum) RINGPRESS_RETURN_IF_ERROR(calls_->write_sum(receive));
    // Nobody votes later than this: the sum is in the stream, or stays.
    RINGPRESS_RETURN_IF_ERROR(calls_->conclude(largest));
  }
  RINGPRESS_RETURN_IF_ERROR(sums_->leave());
  return decision;
}

}  // namespace ringpress::nccl_plugin::interposer
