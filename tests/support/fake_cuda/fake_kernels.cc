// In streams of the fake runtime, the kernels of q1 to q8, qsgd and qsgd-ms as the scalar reference
// (the agents' own arithmetic is tests/compress_kernels/agent_test.cc's), and those of projections
// and of topk on fibers.
#include <vector>

#include "compress_kernels/chunk_topk/device_kernels.h"
#include "compress_kernels/cuda/backend.cuh"
#include "compress_kernels/device_family.h"
#include "compress_kernels/models/device_tasks.h"
#include "compress_kernels/powersgd/task_projection.h"
#include "compress_kernels/q/device_kernels.h"
#include "compress_kernels/qsgd/device_kernels.h"
#include "compress_kernels/qsgd/merge.h"
#include "compress_kernels/qsgd/transcoder.h"
#include "compress_kernels/randk/task_projection.h"
#include "compress_kernels/scales/device_tasks.h"
#include "compress_kernels/task_codec.h"
#include "compress_kernels/uniform/uniform.h"
#include "tests/compress_kernels/fiber_backend.h"
#include "tests/support/fake_cuda/cuda_runtime_api.h"

namespace ringpress::compress_kernels::cuda {
namespace {

int enqueue(const Target& target, std::function<void()> work) {
  return fakeLaunch(static_cast<cudaStream_t>(target.stream), std::move(work));
}

UniformParameters parameters_for(UniformParameters parameters, const Target& target) {
  parameters.dtype = target.dtype;
  return parameters;
}

void fill_output(const core::EncodeOutput& output, auto& args) {
  args.residual = output.residual;
  args.wire = output.wire;
  args.decoded = output.decoded;
  args.random = output.random;
}

qsgd::Transcoder transcoder_for(const QsgdDeviceParameters& parameters, const Target& target) {
  qsgd::Transcoder transcoder{parameters.codec, &qsgd::reference_kernels()};
  transcoder.parameters.dtype = target.dtype;
  return transcoder;
}

void summarise(const qsgd::Transcoder& transcoder, qsgd::Summary summary,
               const SummariseArgs& args) {
  switch (summary) {
    case qsgd::Summary::kTensorNorm: {
      const std::uint32_t norm = qsgd::norm_of_magnitude(transcoder.measure_tensor(args));
      return qsgd::merge_norms(reinterpret_cast<const std::byte*>(&norm), sizeof norm,
                               args.summary);
    }
    case qsgd::Summary::kBlockNorms:
      return transcoder.measure_blocks(args);
    case qsgd::Summary::kLevels:
      return transcoder.choose_levels(args);
  }
}

}  // namespace

template <>
int launch(const core::EncodeTask<UniformParameters>& task, const Target& target) {
  return enqueue(target, [task, target] {
    for (std::size_t i = 0; i < target.extent.shards; ++i) {
      EncodeArgs args;
      args.values = task.shards[i].values;
      args.count = task.shards[i].count;
      fill_output(task.shards[i].output, args);
      uniform::reference_kernels().encode(parameters_for(task.parameters, target), args);
    }
  });
}

template <>
int launch(const core::DecodeTask<UniformParameters>& task, const Target& target) {
  return enqueue(target, [task, target] {
    for (std::size_t i = 0; i < target.extent.shards; ++i) {
      DecodeArgs args;
      args.wire = task.shards[i].wire;
      args.count = task.shards[i].count;
      args.values = task.shards[i].values;
      uniform::reference_kernels().decode(parameters_for(task.parameters, target), args);
    }
  });
}

template <>
int launch(const core::HopTask<UniformParameters>& task, const Target& target) {
  return enqueue(target, [task, target] {
    DecodeAddEncodeArgs args;
    args.wires = {task.wires, task.wire_count};
    const std::vector<std::size_t> sizes(task.wire_count);
    args.wire_sizes = sizes;
    args.own_position = task.own_position;
    args.values = task.values;
    args.count = task.count;
    args.divisor = task.divisor;
    fill_output(task.output, args);
    uniform::reference_kernels().decode_add_encode(parameters_for(task.parameters, target), args);
  });
}

template <>
int launch(const core::EncodeTask<QsgdDeviceParameters>& task, const Target& target) {
  return enqueue(target, [task, target] {
    for (std::size_t i = 0; i < target.extent.shards; ++i) {
      EncodeArgs args;
      args.values = task.shards[i].values;
      args.count = task.shards[i].count;
      args.form = task.parameters.form;
      args.agreed = task.shards[i].agreed;
      fill_output(task.shards[i].output, args);
      transcoder_for(task.parameters, target).encode(args);
    }
  });
}

template <>
int launch(const core::DecodeTask<QsgdDeviceParameters>& task, const Target& target) {
  return enqueue(target, [task, target] {
    for (std::size_t i = 0; i < target.extent.shards; ++i) {
      DecodeArgs args;
      args.wire = task.shards[i].wire;
      args.count = task.shards[i].count;
      args.values = task.shards[i].values;
      args.divisor = task.shards[i].divisor;
      args.form = task.parameters.form;
      args.agreed = task.shards[i].agreed;
      transcoder_for(task.parameters, target).decode(args);
    }
  });
}

template <>
int launch(const core::HopTask<QsgdDeviceParameters>& task, const Target& target) {
  return enqueue(target, [task, target] {
    DecodeAddEncodeArgs args;
    args.wires = {task.wires, task.wire_count};
    args.own_position = task.own_position;
    args.values = task.values;
    args.count = task.count;
    args.divisor = task.divisor;
    args.wire_contributions = task.parameters.part.summed;
    args.form = task.parameters.form;
    args.agreed = task.agreed;
    fill_output(task.output, args);
    transcoder_for(task.parameters, target).decode_add_encode(args);
  });
}

template <>
int launch(const qsgd::SummaryTask& task, const Target& target) {
  return enqueue(target, [task, target] {
    for (std::size_t i = 0; i < target.extent.shards; ++i) {
      summarise(transcoder_for(task.parameters, target), task.summary, task.shards[i]);
    }
  });
}

template <>
int launch(const qsgd::MergeTask& task, const Target& target) {
  return enqueue(target, [task] {
    const int bits = qsgd::level_bits(task.parameters.codec);
    for (std::size_t i = 0; i < task.from_count; ++i) {
      if (task.summary == qsgd::Summary::kLevels) {
        qsgd::merge_levels(task.from[i], task.bytes, bits, task.into);
      } else {
        qsgd::merge_norms(task.from[i], task.bytes, task.into);
      }
    }
  });
}

#define BY_TILES(Task)                                                                       \
  template <>                                                                                \
  int launch(const Task& task, const Target& target) {                                       \
    return enqueue(target, [task, target] {                                                  \
      static_cast<void>(                                                                     \
          testing::FiberBackend{}.launch(target.stream, target.dtype, task, target.extent)); \
    });                                                                                      \
  }
BY_TILES(chunk_topk::EncodeTask)
BY_TILES(chunk_topk::DecodeTask)
BY_TILES(chunk_topk::HopTask)
#undef BY_TILES

#define NO_KERNELS(Task)                   \
  template <>                              \
  int launch(const Task&, const Target&) { \
    return cudaErrorNotSupported;          \
  }
NO_KERNELS(core::EncodeTask<LloydDeviceParameters>)
NO_KERNELS(core::DecodeTask<LloydDeviceParameters>)
NO_KERNELS(core::HopTask<LloydDeviceParameters>)
NO_KERNELS(core::HopTask<RegriddingParameters>)
#undef NO_KERNELS

/// What a graph replays is the agents' own work.
template <typename Task>
int launch_projection(const Task& task, const ProjectionTarget& target) {
  return fakeLaunch(static_cast<cudaStream_t>(target.stream), [task, target] {
    static_cast<void>(
        testing::FiberBackend{}.launch(target.stream, target.dtype, task, target.count));
  });
}
#define ON_FIBERS(Task) template int launch_projection(const Task&, const ProjectionTarget&);
ON_FIBERS(models::ChangeTask)
ON_FIBERS(models::AverageTask)
ON_FIBERS(models::DifferenceTask)
ON_FIBERS(models::HalfDifferenceTask)
ON_FIBERS(models::WidenTask)
ON_FIBERS(models::MeanTask)
ON_FIBERS(models::LengthTask)
ON_FIBERS(models::AddValuesTask)
ON_FIBERS(models::TotalTask)
ON_FIBERS(scales::DivideTask)
ON_FIBERS(scales::MultiplyTask)
ON_FIBERS(scales::LearnTask)
ON_FIBERS(scales::MeasureTask)
ON_FIBERS(scales::SettleTask)
#undef ON_FIBERS

}  // namespace ringpress::compress_kernels::cuda

RINGPRESS_DEVICE_CODEC(kUniform, cuda::CudaBackend, PlainKernels<UniformParameters>)
RINGPRESS_DEVICE_CODEC(kQ, cuda::CudaBackend, q::DeviceKernels)
RINGPRESS_DEVICE_CODEC(kQsgd, cuda::CudaBackend, qsgd::DeviceKernels)
RINGPRESS_DEVICE_CODEC(kChunkTopk, cuda::CudaBackend, chunk_topk::DeviceKernels)
RINGPRESS_DEVICE_PROJECTION(kRandk, cuda::CudaBackend, randk::TaskProjection)
RINGPRESS_DEVICE_PROJECTION(kPowersgd, cuda::CudaBackend, powersgd::TaskProjection)

namespace ringpress::compress_kernels {

// The others have no kernels here.
#define NOTHING(id)                                                                        \
  template <>                                                                              \
  DeviceFamily<cuda::CudaBackend> device_family<DeviceFamilyId::id, cuda::CudaBackend>() { \
    return {};                                                                             \
  }
NOTHING(kCast)
NOTHING(kFp8)
NOTHING(kTern)
#undef NOTHING

}  // namespace ringpress::compress_kernels
