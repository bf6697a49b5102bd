// Broadcast and reduce: exact collectives with a root.
//
// Both run along a chain of the ranks that starts (broadcast) or ends (reduce) at the root. The
// tensor moves in chunks, so that all links of the chain work at once and the time is that of one
// transfer, plus one chunk per rank. A small broadcast goes down a binomial tree instead, in
// log2(N) latencies.
#include <bit>
#include <cstring>
#include <vector>

#include "ring/collective/chunked_call.h"
#include "ring/collective/pipeline.h"
#include "ring/factory.h"

namespace ringpress::ring {
namespace {

constexpr std::size_t kWindow = 4;
constexpr std::size_t kSmallBytes = 64 * 1024;

/// Ranks by their distance from the root.
struct Positions {
  int root;
  int world;
  int of(int rank) const { return (rank - root + world) % world; }
  int rank_at(int position) const { return (position + root) % world; }
};

FrameLabel label_of(const CollectiveContext& context, std::size_t chunk) {
  return {context.call, 0, static_cast<std::uint32_t>(chunk)};
}

std::size_t chunk_elements_of(const CollectiveContext& context, std::size_t count) {
  return context.chunk_elements != 0 ? context.chunk_elements
                                     : choose_chunk_elements(count, *context.codec);
}

/// Receives that stay `kWindow` chunks ahead of their use.
class ReceiveAhead {
 public:
  ReceiveAhead(const CollectiveContext& context, int peer, Range whole, std::size_t chunk_elements)
      : context_(context), peer_(peer), whole_(whole), chunk_elements_(chunk_elements) {}

  /// Waits for the next chunk; `destination` as for post(). Null: a view that must be released.
  Result<Request*> next(std::byte* destination, std::size_t element_bytes) {
    while (posted_ < taken_ + kWindow) {
      const Range range = chunk_of(whole_, posted_, chunk_elements_);
      if (range.count == 0) break;
      RINGPRESS_RETURN_IF_ERROR(post(range, destination, element_bytes));
    }
    return requests_[taken_++];
  }

 private:
  Status post(const Range& range, std::byte* destination, std::size_t element_bytes) {
    const std::size_t bytes = range.count * element_bytes;
    const FrameLabel label = label_of(context_, posted_);
    auto request = destination == nullptr
                       ? context_.mesh->irecv_view(peer_, FrameLength::exactly(bytes), label)
                       : context_.mesh->irecv(
                             peer_, {destination + range.offset * element_bytes, bytes}, label);
    if (!request.is_ok()) return request.status();
    requests_.push_back(request.value());
    ++posted_;
    return Status::ok();
  }

  const CollectiveContext& context_;
  int peer_;
  Range whole_;
  std::size_t chunk_elements_;
  std::size_t posted_ = 0;
  std::size_t taken_ = 0;
  std::vector<Request*> requests_;
};

/// The ranks that a rank of the tree or chain sends to.
std::vector<int> children_of(int position, int world, bool tree) {
  std::vector<int> children;
  if (!tree) {
    if (position + 1 < world) children.push_back(position + 1);
    return children;
  }
  const auto first = static_cast<int>(std::bit_floor(static_cast<unsigned>(position)) * 2);
  for (int step = position == 0 ? 1 : first; position + step < world; step *= 2) {
    children.push_back(position + step);
  }
  return children;
}

int parent_of(int position, bool tree) {
  if (!tree) return position - 1;
  return position - static_cast<int>(std::bit_floor(static_cast<unsigned>(position)));
}

}  // namespace

Status broadcast(const CollectiveContext& context, const void* send, void* receive,
                 std::size_t count, int root) {
  Mesh& mesh = *context.mesh;
  const std::size_t element_bytes = dtype_size(context.codec->dtype());
  const Positions positions{root, mesh.size()};
  const int position = positions.of(mesh.rank());
  const bool tree = count * element_bytes <= kSmallBytes;
  const std::size_t chunk_elements = chunk_elements_of(context, count);
  const Range whole{0, count};
  auto* destination = static_cast<std::byte*>(receive);
  if (position == 0 && send != receive) std::memcpy(receive, send, count * element_bytes);
  const std::vector<int> children = children_of(position, mesh.size(), tree);
  ReceiveAhead arriving(context, positions.rank_at(position == 0 ? 0 : parent_of(position, tree)),
                        whole, chunk_elements);
  SendWindow sending(context, 0, kWindow, 0);
  for (std::size_t chunk = 0; chunk_of(whole, chunk, chunk_elements).count != 0; ++chunk) {
    const Range range = chunk_of(whole, chunk, chunk_elements);
    if (position != 0) {
      RINGPRESS_ASSIGN_OR_RETURN(Request * request, arriving.next(destination, element_bytes));
      RINGPRESS_RETURN_IF_ERROR(mesh.wait(request).status());
      mesh.release(request);
    }
    RINGPRESS_RETURN_IF_ERROR(sending.acquire(chunk).status());
    for (const int child : children) {
      RINGPRESS_RETURN_IF_ERROR(sending.keep(
          chunk,
          mesh.isend(positions.rank_at(child),
                     {destination + range.offset * element_bytes, range.count * element_bytes},
                     label_of(context, chunk))));
    }
  }
  return sending.drain();
}

// The chain starts at the rank after the root; the sum is taken in that order.
Status reduce(const CollectiveContext& context, const void* send, void* receive, std::size_t count,
              int root) {
  Mesh& mesh = *context.mesh;
  const std::size_t element_bytes = dtype_size(context.codec->dtype());
  const Positions positions{(root + 1) % mesh.size(), mesh.size()};
  const int position = positions.of(mesh.rank());
  const bool is_root = mesh.rank() == root;
  const std::size_t chunk_elements = chunk_elements_of(context, count);
  const Range whole{0, count};
  ReceiveAhead arriving(context, positions.rank_at(position == 0 ? 0 : position - 1), whole,
                        chunk_elements);
  SendWindow sending(context, 0, kWindow, chunk_elements * element_bytes);
  for (std::size_t chunk = 0; chunk_of(whole, chunk, chunk_elements).count != 0; ++chunk) {
    const Range range = chunk_of(whole, chunk, chunk_elements);
    DecodeAddEncodeArgs hop;
    const std::byte* partial_sum = nullptr;
    Request* view = nullptr;
    if (position != 0) {
      RINGPRESS_ASSIGN_OR_RETURN(view, arriving.next(nullptr, element_bytes));
      RINGPRESS_ASSIGN_OR_RETURN(const ConstBuffer payload, mesh.wait(view));
      partial_sum = payload.data;
      hop.wires = {&partial_sum, 1};
      hop.own_position = 1;
    }
    RINGPRESS_ASSIGN_OR_RETURN(std::byte * memory, sending.acquire(chunk));
    const std::size_t offset_bytes = range.offset * element_bytes;
    hop.values = static_cast<const std::byte*>(send) + offset_bytes;
    hop.count = range.count;
    hop.input_scale = context.input_scale;
    hop.memory = context.memory;
    hop.divisor = is_root ? divisor_of(context) : 1;
    hop.decoded = is_root ? static_cast<std::byte*>(receive) + offset_bytes : memory;
    context.codec->decode_add_encode(hop);
    if (view != nullptr) mesh.release(view);
    if (is_root) continue;
    RINGPRESS_RETURN_IF_ERROR(sending.keep(
        chunk, mesh.isend(positions.rank_at(position + 1), {memory, range.count * element_bytes},
                          label_of(context, chunk))));
  }
  return sending.drain();
}

}  // namespace ringpress::ring
