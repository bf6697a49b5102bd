// The tables of the collective network that NCCL looks up, one a version, over collnet.h. A
// function is named after the first version whose signature it has. All-gather and reduce-scatter
// are null: NCCL does those by itself.
#include "nccl_plugin/abi/net_v10.h"
#include "nccl_plugin/abi/net_v11.h"
#include "nccl_plugin/abi/net_v12.h"
#include "nccl_plugin/abi/net_v7.h"
#include "nccl_plugin/abi/net_v8.h"
#include "nccl_plugin/abi/net_v9.h"
#include "nccl_plugin/plugin/collnet.h"
#include "nccl_plugin/plugin/net_signatures.h"
#include "nccl_plugin/plugin/report.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

ncclResult_t coll_init_v7(abi::Logger logger) {
  return answer("ncclCollNet init", [&] { return collnet_init(logger); });
}

ncclResult_t coll_init_v11(void** ctx, std::uint64_t comm_id, abi::Logger logger) {
  return answer("ncclCollNet init", [&]() -> Status {
    if (ctx == nullptr) {
      return Status(Code::kInvalidArgument, "the place for the context is null");
    }
    RINGPRESS_RETURN_IF_ERROR(collnet_init(logger));
    *ctx = (new CollNetContext(comm_id))->handle();
    return Status::ok();
  });
}

ncclResult_t coll_devices_v7(int* count) {
  return answer("ncclCollNet devices", [&] { return collnet_devices(count); });
}

template <typename Properties>
ncclResult_t coll_get_properties_v7(int index, Properties* properties) {
  return answer("ncclCollNet getProperties", [&] { return fill_properties(index, properties); });
}

ncclResult_t coll_listen_v7(int device, void* handle, void** listen_comm) {
  return answer("ncclCollNet listen",
                [&] { return collnet_listen(nullptr, device, handle, listen_comm); });
}

ncclResult_t coll_listen_v11(void* ctx, int device, void* handle, void** listen_comm) {
  return answer("ncclCollNet listen",
                [&] { return collnet_listen(ctx, device, handle, listen_comm); });
}

ncclResult_t coll_connect_v7(void** handles, int count, int rank, void* listen_comm,
                             void** coll_comm) {
  return answer("ncclCollNet connect",
                [&] { return collnet_connect(handles, count, rank, listen_comm, coll_comm); });
}

ncclResult_t reduce_support_v7(abi::DataTypeNumber type, abi::OperationNumber op, int* supported) {
  return answer("ncclCollNet reduceSupport",
                [&] { return collnet_reduce_support(type, op, supported); });
}

ncclResult_t coll_reg_mr_v8(void* coll_comm, void* data, std::size_t bytes, int type,
                            void** mhandle) {
  return answer("ncclCollNet regMr", [&] {
    return collnet_register(coll_comm, {data, bytes}, type, mhandle);
  });
}

/// A size below zero becomes one that is refused.
ncclResult_t coll_reg_mr_v7(void* coll_comm, void* data, int bytes, int type, void** mhandle) {
  return coll_reg_mr_v8(coll_comm, data, static_cast<std::size_t>(bytes), type, mhandle);
}

ncclResult_t coll_dereg_mr_v7(void* coll_comm, void* mhandle) {
  return answer("ncclCollNet deregMr", [&] { return collnet_deregister(coll_comm, mhandle); });
}

ncclResult_t iallreduce_v9(void* coll_comm, void* send, void* receive, std::size_t count,
                           abi::DataTypeNumber type, abi::OperationNumber op, void* send_mhandle,
                           void* receive_mhandle, void** request) {
  return answer("ncclCollNet iallreduce", [&] {
    return collnet_iallreduce(
        coll_comm, {send, receive, count, type, op, send_mhandle, receive_mhandle}, request);
  });
}

ncclResult_t iallreduce_v7(void* coll_comm, void* send, void* receive, int count,
                           abi::DataTypeNumber type, abi::OperationNumber op, void* send_mhandle,
                           void* receive_mhandle, void** request) {
  if (count < 0) {
    return answer("ncclCollNet iallreduce",
                  [] { return Status(Code::kInvalidArgument, "less than no elements"); });
  }
  return iallreduce_v9(coll_comm, send, receive, static_cast<std::size_t>(count), type, op,
                       send_mhandle, receive_mhandle, request);
}

ncclResult_t coll_iflush_v7(void* coll_comm, void* data, int bytes, void* mhandle, void** request) {
  return answer("ncclCollNet iflush", [&]() -> Status {
    if (bytes < 0) return Status(Code::kInvalidArgument, "less than no bytes");
    const MemoryRange range{data, static_cast<std::size_t>(bytes)};
    return collnet_iflush(coll_comm, range, mhandle, request);
  });
}

ncclResult_t coll_test_v7(void* request, int* done, int* size) {
  return answer_once("ncclCollNet test",
                     [&](bool* is_told) { return collnet_test(request, done, size, is_told); });
}

ncclResult_t close_coll_v7(void* coll_comm) {
  return answer("ncclCollNet closeColl", [&] { return collnet_close(coll_comm); });
}

ncclResult_t coll_close_listen_v7(void* listen_comm) {
  return answer("ncclCollNet closeListen", [&] { return collnet_close_listen(listen_comm); });
}

ncclResult_t coll_finalize_v11(void* ctx) {
  return answer("ncclCollNet finalize", [&] { return collnet_finalize(ctx); });
}

}  // namespace
}  // namespace ringpress::nccl_plugin::plugin

namespace table = ringpress::nccl_plugin::plugin;
namespace abi = ringpress::abi;

#define RINGPRESS_TABLE extern "C" __attribute__((visibility("default")))
RINGPRESS_TABLE abi::CollNetV7 ncclCollNetPlugin_v7;
RINGPRESS_TABLE abi::CollNetV8 ncclCollNetPlugin_v8;
RINGPRESS_TABLE abi::CollNetV9 ncclCollNetPlugin_v9;
RINGPRESS_TABLE abi::CollNetV10 ncclCollNetPlugin_v10;
RINGPRESS_TABLE abi::CollNetV11 ncclCollNetPlugin_v11;
RINGPRESS_TABLE abi::CollNetV12 ncclCollNetPlugin_v12;

abi::CollNetV7 ncclCollNetPlugin_v7 = {
    .name = table::kNetName,
    .init = table::coll_init_v7,
    .devices = table::coll_devices_v7,
    .get_properties = table::coll_get_properties_v7,
    .listen = table::coll_listen_v7,
    .connect = table::coll_connect_v7,
    .reduce_support = table::reduce_support_v7,
    .reg_mr = table::coll_reg_mr_v7,
    .reg_mr_dma_buf = nullptr,
    .dereg_mr = table::coll_dereg_mr_v7,
    .iallreduce = table::iallreduce_v7,
    .iflush = table::coll_iflush_v7,
    .test = table::coll_test_v7,
    .close_coll = table::close_coll_v7,
    .close_listen = table::coll_close_listen_v7,
};

abi::CollNetV8 ncclCollNetPlugin_v8 = {
    .name = table::kNetName,
    .init = table::coll_init_v7,
    .devices = table::coll_devices_v7,
    .get_properties = table::coll_get_properties_v7,
    .listen = table::coll_listen_v7,
    .connect = table::coll_connect_v7,
    .reduce_support = table::reduce_support_v7,
    .reg_mr = table::coll_reg_mr_v8,
    .reg_mr_dma_buf = nullptr,
    .dereg_mr = table::coll_dereg_mr_v7,
    .iallreduce = table::iallreduce_v7,
    .iallgather = nullptr,
    .ireducescatter = nullptr,
    .iflush = table::coll_iflush_v7,
    .test = table::coll_test_v7,
    .close_coll = table::close_coll_v7,
    .close_listen = table::coll_close_listen_v7,
};

abi::CollNetV9 ncclCollNetPlugin_v9 = {
    .name = table::kNetName,
    .init = table::coll_init_v7,
    .devices = table::coll_devices_v7,
    .get_properties = table::coll_get_properties_v7,
    .listen = table::coll_listen_v7,
    .connect = table::coll_connect_v7,
    .reduce_support = table::reduce_support_v7,
    .reg_mr = table::coll_reg_mr_v8,
    .reg_mr_dma_buf = nullptr,
    .dereg_mr = table::coll_dereg_mr_v7,
    .iallreduce = table::iallreduce_v9,
    .iallgather = nullptr,
    .ireducescatter = nullptr,
    .iflush = table::coll_iflush_v7,
    .test = table::coll_test_v7,
    .close_coll = table::close_coll_v7,
    .close_listen = table::coll_close_listen_v7,
    .make_virtual_device = nullptr,
};

abi::CollNetV10 ncclCollNetPlugin_v10 = {
    .name = table::kNetName,
    .init = table::coll_init_v7,
    .devices = table::coll_devices_v7,
    .get_properties = table::coll_get_properties_v7,
    .listen = table::coll_listen_v7,
    .connect = table::coll_connect_v7,
    .reduce_support = table::reduce_support_v7,
    .reg_mr = table::coll_reg_mr_v8,
    .reg_mr_dma_buf = nullptr,
    .dereg_mr = table::coll_dereg_mr_v7,
    .iallreduce = table::iallreduce_v9,
    .iallgather = nullptr,
    .ireducescatter = nullptr,
    .iflush = table::coll_iflush_v7,
    .test = table::coll_test_v7,
    .close_coll = table::close_coll_v7,
    .close_listen = table::coll_close_listen_v7,
    .make_virtual_device = nullptr,
};

abi::CollNetV11 ncclCollNetPlugin_v11 = {
    .name = table::kNetName,
    .init = table::coll_init_v11,
    .devices = table::coll_devices_v7,
    .get_properties = table::coll_get_properties_v7,
    .listen = table::coll_listen_v11,
    .connect = table::coll_connect_v7,
    .reduce_support = table::reduce_support_v7,
    .reg_mr = table::coll_reg_mr_v8,
    .reg_mr_dma_buf = nullptr,
    .dereg_mr = table::coll_dereg_mr_v7,
    .iallreduce = table::iallreduce_v9,
    .iallgather = nullptr,
    .ireducescatter = nullptr,
    .iflush = table::coll_iflush_v7,
    .test = table::coll_test_v7,
    .close_coll = table::close_coll_v7,
    .close_listen = table::coll_close_listen_v7,
    .make_virtual_device = nullptr,
    .finalize = table::coll_finalize_v11,
};

abi::CollNetV12 ncclCollNetPlugin_v12 = {
    .name = table::kNetName,
    .init = table::coll_init_v11,
    .devices = table::coll_devices_v7,
    .get_properties = table::coll_get_properties_v7,
    .listen = table::coll_listen_v11,
    .connect = table::coll_connect_v7,
    .reduce_support = table::reduce_support_v7,
    .reg_mr = table::coll_reg_mr_v8,
    .reg_mr_dma_buf = nullptr,
    .dereg_mr = table::coll_dereg_mr_v7,
    .iallreduce = table::iallreduce_v9,
    .iallgather = nullptr,
    .ireducescatter = nullptr,
    .iflush = table::coll_iflush_v7,
    .test = table::coll_test_v7,
    .close_coll = table::close_coll_v7,
    .close_listen = table::coll_close_listen_v7,
    .make_virtual_device = nullptr,
    .finalize = table::coll_finalize_v11,
};
