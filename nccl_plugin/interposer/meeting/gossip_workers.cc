#include "nccl_plugin/interposer/meeting/gossip_workers.h"

#include <utility>

#include "nccl_plugin/gossip/stream_models.h"
#include "nccl_plugin/interposer/devices.h"
#include "nccl_plugin/interposer/last_error.h"
#include "nccl_plugin/interposer/meeting/gossip_peers.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

class GossipWorkers final : public gossip::Workers {
 public:
  GossipWorkers(const GossipGround& ground, std::shared_ptr<Device> device,
                std::unique_ptr<GossipPeers> peers)
      : is_grouped_(ground.is_grouped), device_(std::move(device)), peers_(std::move(peers)) {}

  std::unique_ptr<gossip::Models> make_models() override {
    return std::make_unique<gossip::StreamModels>(device_);
  }

  Status run(Stream stream, const std::function<Status(gossip::Peers&)>& body) override {
    const Status usable = check(stream);
    peers_->use(stream);
    const Status done = usable.is_ok() ? body(*peers_) : usable;
    if (!done.is_ok()) set_last_error("ringpress: " + done.message());
    return done;
  }

 private:
  Status check(Stream stream) const {
    RINGPRESS_RETURN_IF_ERROR(peers_->check());
    if (is_grouped_()) {
      return {Code::kInvalidUsage,
              "gossip within a group: its sends would wait for the group's end"};
    }
    RINGPRESS_ASSIGN_OR_RETURN(const std::uint64_t capture, device_->capture(stream));
    if (capture == 0) return Status::ok();
    return {Code::kInvalidUsage, "a stream that is being captured: gossip decides at each step"};
  }

  const std::function<bool()> is_grouped_;
  const std::shared_ptr<Device> device_;
  const std::unique_ptr<GossipPeers> peers_;
};

}  // namespace

Result<std::unique_ptr<gossip::Workers>> make_gossip_workers(const GossipGround& ground,
                                                             ncclComm_t comm) {
  int number = 0;
  if (ground.real.CommCuDevice(comm, &number) != ncclSuccess) {
    return Status(Code::kInvalidArgument, "comm is not a communicator of the NCCL library");
  }
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<Device> made, make_device(ground.backend, number));
  const std::shared_ptr<Device> device = std::move(made);
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<GossipPeers> peers,
                             GossipPeers::make(ground.real, comm, ground.comms.join(comm), device));
  return std::unique_ptr<gossip::Workers>(
      std::make_unique<GossipWorkers>(ground, device, std::move(peers)));
}

}  // namespace ringpress::nccl_plugin::interposer
