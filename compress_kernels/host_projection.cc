// Projections of codecs of the host as those of a device whose memory is the host's and where work
// is done at once.
#include <utility>

#include "compress_kernels/core/projection_tasks.h"
#include "compress_kernels/factory.h"

namespace ringpress::compress_kernels {
namespace {

class HostProjection final : public DeviceProjection {
 public:
  explicit HostProjection(std::unique_ptr<Codec> codec) : codec_(std::move(codec)) {}

  const Codec& codec() const override { return *codec_; }
  std::size_t scratch_count(const TensorShape&) const override { return 0; }

  Status offer_state(Stream, const DeviceProjectArgs& args) override {
    const core::StateTags tags = core::tags_of(args.state_call == nullptr ? 0 : *args.state_call);
    args.tags[0] = tags.call;
    args.tags[1] = tags.complement;
    return Status::ok();
  }
  Status project(Stream, int round, const DeviceProjectArgs& args) override {
    codec_->projection()->project(round, host_args(args));
    return Status::ok();
  }
  Status finish(Stream, const DeviceProjectArgs& args) override {
    codec_->projection()->finish(host_args(args));
    if (args.state_call != nullptr) *args.state_call = args.call.step + 1;
    return Status::ok();
  }

 private:
  static ProjectArgs host_args(const DeviceProjectArgs& args) {
    ProjectArgs call = args.call;
    call.state_is_warm =
        call.state != nullptr && core::is_warm(core::StateTags{args.tags[0], args.tags[1]});
    return call;
  }

  const std::unique_ptr<Codec> codec_;
};

}  // namespace

bool projects(const std::string& specification) {
  const auto codec = make_codec(specification, DType::kFloat32, ReduceOp::kSum);
  return codec.is_ok() && codec.value()->projection() != nullptr;
}

Result<std::unique_ptr<DeviceProjection>> make_host_projection(const std::string& specification,
                                                               DType dtype, ReduceOp op) {
  RINGPRESS_ASSIGN_OR_RETURN(std::unique_ptr<Codec> codec, make_codec(specification, dtype, op));
  if (codec->projection() == nullptr) {
    return Status(Code::kUnsupported, specification + " projects nothing");
  }
  return std::unique_ptr<DeviceProjection>(std::make_unique<HostProjection>(std::move(codec)));
}

}  // namespace ringpress::compress_kernels
