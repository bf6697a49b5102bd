// What ranks agree on, as a device finds it whose memory is the host's and where work is done at
// once.
#include "compress_kernels/factory.h"
#include "ringpress/internal/agreement.h"

namespace ringpress::compress_kernels {
namespace {

class HostAgreement final : public DeviceAgreement {
 public:
  explicit HostAgreement(const Agreement& agreement) : agreement_(agreement) {}

  Status summarise_tensor(Stream, const SummariseArgs& args) override {
    agreement_.summarise_tensor(args);
    return Status::ok();
  }
  Status merge_tensor(Stream, std::span<const std::byte* const> from, std::byte* into) override {
    for (const std::byte* summary : from) agreement_.merge_tensor(summary, into);
    return Status::ok();
  }
  Status summarise(Stream, int round, std::span<const SummariseArgs> shards) override {
    for (const SummariseArgs& shard : shards) agreement_.summarise(round, shard);
    return Status::ok();
  }
  Status merge(Stream, int round, std::size_t count, std::span<const std::byte* const> from,
               std::byte* into) override {
    for (const std::byte* summary : from) agreement_.merge(round, count, summary, into);
    return Status::ok();
  }

 private:
  const Agreement& agreement_;
};

}  // namespace

std::unique_ptr<DeviceAgreement> make_host_agreement(const Agreement& agreement) {
  return std::make_unique<HostAgreement>(agreement);
}

}  // namespace ringpress::compress_kernels
