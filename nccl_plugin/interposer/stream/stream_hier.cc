// hier: exact inside a host, compressed between hosts. With L ranks on each host, rank l of a host
// reduces the l-th of L equal parts of the tensor:
//
//   1. an exact reduce-scatter among the ranks of the host; rank l gets the host's sum of part l
//   2. that sum is all-reduced, compressed, among the ranks l of all hosts (stream_sra.cc), in
//      place
//   3. an exact all-gather among the ranks of the host
//
// So each byte of a sum crosses the network once from each host, and the network carries nothing
// that is not compressed. An average is one of averages: all hosts have L ranks. The few elements
// that are left over when L does not divide their number are all-reduced exactly before.
#include "nccl_plugin/interposer/calls/stream_call.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

StreamCallParts between_hosts(StreamCallParts parts, const HostParts& host) {
  const std::size_t part = hier_part(parts.count, host.size);
  const std::size_t element_bytes = dtype_size(static_cast<DType>(host.dtype));
  parts.receive = static_cast<std::byte*>(parts.receive) + host.rank * part * element_bytes;
  parts.send = parts.receive;
  parts.count = part;
  return parts;
}

class HierCall final : public StreamCall {
 public:
  HierCall(const StreamCallParts& parts, const HostParts& host)
      : parts_(parts),
        host_(host),
        part_(hier_part(parts.count, host.size)),
        rest_(parts.count - part_ * host.size),
        before_(rest_ > 0 ? 2 : 1),
        inner_(make_sra_call(between_hosts(parts, host))) {}

  std::size_t steps() const override { return before_ + inner_->steps() + 1; }
  bool exchanges(std::size_t step) const override {
    return !is_inner(step) || inner_->exchanges(step - before_);
  }
  Status prepare(std::size_t step) override {
    if (is_inner(step)) return inner_->prepare(step - before_);
    // Calls of one communicator run in the order in which they were made, whatever their streams.
    Lane& lane = *parts_.lane;
    const bool waits = step == 0 && lane.was_used;
    return waits ? parts_.device->wait(parts_.stream, lane.events().done) : Status::ok();
  }
  Status conclude(std::size_t step) override {
    if (is_inner(step)) return inner_->conclude(step - before_);
    if (step < before_) return Status::ok();
    // The end of the call is that of the gather.
    return parts_.device->record(parts_.lane->events().done, parts_.stream);
  }
  ncclResult_t exchange(std::size_t step) override {
    if (is_inner(step)) return inner_->exchange(step - before_);
    if (step >= before_) return gather();
    return step + 1 == before_ ? scatter() : reduce_rest();
  }
  std::uint64_t sent_bytes() const override { return inner_->sent_bytes(); }
  std::uint64_t raw_bytes() const override { return inner_->raw_bytes(); }

 private:
  bool is_inner(std::size_t step) const {
    return step >= before_ && step < before_ + inner_->steps();
  }
  const std::byte* send_at(std::size_t element) const {
    return static_cast<const std::byte*>(parts_.send) + element * element_bytes();
  }
  std::byte* receive_at(std::size_t element) const {
    return static_cast<std::byte*>(parts_.receive) + element * element_bytes();
  }
  std::size_t element_bytes() const { return dtype_size(static_cast<DType>(host_.dtype)); }
  cudaStream_t stream() const { return static_cast<cudaStream_t>(parts_.stream); }

  ncclResult_t reduce_rest() const {
    const std::size_t first = part_ * host_.size;
    return parts_.real->AllReduce(send_at(first), receive_at(first), rest_, host_.dtype, host_.op,
                                  host_.whole, stream());
  }
  ncclResult_t scatter() const {
    return parts_.real->ReduceScatter(parts_.send, receive_at(host_.rank * part_), part_,
                                      host_.dtype, host_.op, host_.local, stream());
  }
  ncclResult_t gather() const {
    return parts_.real->AllGather(receive_at(host_.rank * part_), parts_.receive, part_,
                                  host_.dtype, host_.local, stream());
  }

  const StreamCallParts parts_;
  const HostParts host_;
  const std::size_t part_;
  const std::size_t rest_;
  const std::size_t before_;  // Steps before those between hosts.
  const StreamCallPointer inner_;
};

}  // namespace

StreamCallPointer make_hier_call(const StreamCallParts& parts, const HostParts& host) {
  return make_stream_call<HierCall>(parts, host);
}

}  // namespace ringpress::nccl_plugin::interposer
