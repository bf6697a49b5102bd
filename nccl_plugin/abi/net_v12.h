// Network and collective-network plugin, version 12. NCCL 2.30 and later: rails and planes; up to 8
// devices merged.
#ifndef NCCL_PLUGIN_ABI_NET_V12_H_
#define NCCL_PLUGIN_ABI_NET_V12_H_

#include "nccl_plugin/abi/types.h"

namespace ringpress::abi {

struct NetVirtualDeviceV12 {
  int count;
  int devices[8];
};

struct NetCommConfigV12 {
  int traffic_class;
};

struct NetPropertiesV12 {
  char* name;
  char* pci_path;       // In /sys; null: not known.
  std::uint64_t guid;   // Of the chip.
  int pointer_support;  // kPointer bits.
  int registration_is_global;
  int force_flush;
  int speed_mbps;
  int port;
  float latency_us;
  int max_comms;
  int max_receives;  // Of one irecv.
  NetDeviceType device_type;
  int device_version;
  NetVirtualDeviceV12 virtual_device;
  std::size_t max_p2p_bytes;
  std::size_t max_coll_bytes;
  int max_multi_request_size;
  std::int16_t rail;
  std::int16_t plane;
};
static_assert(sizeof(NetPropertiesV12) == 128);
static_assert(offsetof(NetPropertiesV12, speed_mbps) == 36);
static_assert(offsetof(NetPropertiesV12, device_version) == 60);
static_assert(offsetof(NetPropertiesV12, max_coll_bytes) == 112);

struct NetCommAttributesV12 {
  std::int32_t max_concurrent_peers;
  std::int32_t min_concurrent_peers;
  std::int32_t max_flows_per_peer;
  std::int32_t min_flows_per_peer;
};

struct NetAttributesV12 {
  NetCommAttributesV12 send;
  NetCommAttributesV12 receive;
  std::uint32_t operations;  // Bits, as the next two.
  std::uint32_t algorithms;
  std::uint32_t protocols;
};
static_assert(sizeof(NetAttributesV12) == 44);

struct NetV12 {
  const char* name;
  ncclResult_t (*init)(void** ctx, std::uint64_t comm_id, NetCommConfigV12* config, Logger log,
                       ProfilerCallback profiler);
  ncclResult_t (*devices)(int* count);
  ncclResult_t (*get_properties)(int device, NetPropertiesV12* properties);
  ncclResult_t (*listen)(void* ctx, int device, void* handle, void** listen_comm);
  ncclResult_t (*connect)(void* ctx, int device, void* handle, void** send_comm,
                          NetDeviceHandle** device_comm);
  ncclResult_t (*accept)(void* listen_comm, void** receive_comm, NetDeviceHandle** device_comm);
  ncclResult_t (*reg_mr)(void* comm, void* data, std::size_t size, int type, void** mhandle);
  ncclResult_t (*reg_mr_dma_buf)(void* comm, void* data, std::size_t size, int type,
                                 std::uint64_t offset, int descriptor, void** mhandle);
  ncclResult_t (*dereg_mr)(void* comm, void* mhandle);
  ncclResult_t (*isend)(void* send_comm, void* data, std::size_t size, int tag, void* mhandle,
                        void* phandle, void** request);
  ncclResult_t (*irecv)(void* receive_comm, int count, void** data, std::size_t* sizes, int* tags,
                        void** mhandles, void** phandles, void** request);
  ncclResult_t (*iflush)(void* receive_comm, int count, void** data, int* sizes, void** mhandles,
                         void** request);
  ncclResult_t (*test)(void* request, int* done, int* sizes);
  ncclResult_t (*close_send)(void* send_comm);
  ncclResult_t (*close_receive)(void* receive_comm);
  ncclResult_t (*close_listen)(void* listen_comm);
  ncclResult_t (*get_device_mr)(void* comm, void* mhandle, void** device_mhandle);
  ncclResult_t (*irecv_consumed)(void* receive_comm, int count, void* request);
  ncclResult_t (*make_virtual_device)(int* device, NetVirtualDeviceV12* parts);
  ncclResult_t (*finalize)(void* ctx);
  ncclResult_t (*set_net_attributes)(void* ctx, NetAttributesV12* attributes);
};
static_assert(sizeof(NetV12) == 22 * sizeof(void*));
static_assert(offsetof(NetV12, test) == 13 * sizeof(void*));

struct CollNetV12 {
  const char* name;
  ncclResult_t (*init)(void** ctx, std::uint64_t comm_id, Logger log);
  ncclResult_t (*devices)(int* count);
  ncclResult_t (*get_properties)(int device, NetPropertiesV12* properties);
  ncclResult_t (*listen)(void* ctx, int device, void* handle, void** listen_comm);
  ncclResult_t (*connect)(void** handles, int count, int rank, void* listen_comm, void** coll_comm);
  ncclResult_t (*reduce_support)(DataTypeNumber type, OperationNumber op, int* supported);
  ncclResult_t (*reg_mr)(void* coll_comm, void* data, std::size_t size, int type, void** mhandle);
  ncclResult_t (*reg_mr_dma_buf)(void* coll_comm, void* data, std::size_t size, int type,
                                 std::uint64_t offset, int descriptor, void** mhandle);
  ncclResult_t (*dereg_mr)(void* coll_comm, void* mhandle);
  ncclResult_t (*iallreduce)(void* coll_comm, void* send, void* receive, std::size_t count,
                             DataTypeNumber type, OperationNumber op, void* send_mhandle,
                             void* receive_mhandle, void** request);
  ncclResult_t (*iallgather)(void* coll_comm, void* send, int receive_count, NetPart* receive_parts,
                             std::size_t bytes_per_rank, std::size_t window_offset,
                             std::size_t window_bytes, void* send_mhandle, void** request);
  ncclResult_t (*ireducescatter)(void* coll_comm, int send_count, NetPart* send_parts,
                                 void* receive, std::size_t bytes_per_rank,
                                 std::size_t window_offset, std::size_t window_bytes,
                                 DataTypeNumber type, OperationNumber op, void* receive_mhandle,
                                 void** request);
  ncclResult_t (*iflush)(void* coll_comm, void* data, int size, void* mhandle, void** request);
  ncclResult_t (*test)(void* request, int* done, int* size);
  ncclResult_t (*close_coll)(void* coll_comm);
  ncclResult_t (*close_listen)(void* listen_comm);
  ncclResult_t (*make_virtual_device)(int* device, NetVirtualDeviceV12* parts);
  ncclResult_t (*finalize)(void* ctx);
};
static_assert(sizeof(CollNetV12) == 19 * sizeof(void*));
static_assert(offsetof(CollNetV12, iallreduce) == 10 * sizeof(void*));

}  // namespace ringpress::abi

#endif  // NCCL_PLUGIN_ABI_NET_V12_H_
