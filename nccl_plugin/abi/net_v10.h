// Network and collective-network plugin, version 10. NCCL 2.26 and later: handles for the profiler;
// traffic classes.
#ifndef NCCL_PLUGIN_ABI_NET_V10_H_
#define NCCL_PLUGIN_ABI_NET_V10_H_

#include "nccl_plugin/abi/types.h"

namespace ringpress::abi {

struct NetVirtualDeviceV10 {
  int count;
  int devices[4];
};

struct NetCommConfigV10 {
  int traffic_class;
};

struct NetPropertiesV10 {
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
  NetVirtualDeviceV10 virtual_device;
  std::size_t max_p2p_bytes;
  std::size_t max_coll_bytes;
};
static_assert(sizeof(NetPropertiesV10) == 104);
static_assert(offsetof(NetPropertiesV10, speed_mbps) == 36);
static_assert(offsetof(NetPropertiesV10, device_version) == 60);
static_assert(offsetof(NetPropertiesV10, max_coll_bytes) == 96);

struct NetV10 {
  const char* name;
  ncclResult_t (*init)(Logger log, ProfilerCallback profiler);
  ncclResult_t (*devices)(int* count);
  ncclResult_t (*get_properties)(int device, NetPropertiesV10* properties);
  ncclResult_t (*listen)(int device, void* handle, void** listen_comm);
  ncclResult_t (*connect)(int device, NetCommConfigV10* config, void* handle, void** send_comm,
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
  ncclResult_t (*make_virtual_device)(int* device, NetVirtualDeviceV10* parts);
};
static_assert(sizeof(NetV10) == 20 * sizeof(void*));
static_assert(offsetof(NetV10, test) == 13 * sizeof(void*));

struct CollNetV10 {
  const char* name;
  ncclResult_t (*init)(Logger log);
  ncclResult_t (*devices)(int* count);
  ncclResult_t (*get_properties)(int device, NetPropertiesV10* properties);
  ncclResult_t (*listen)(int device, void* handle, void** listen_comm);
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
  ncclResult_t (*make_virtual_device)(int* device, NetVirtualDeviceV10* parts);
};
static_assert(sizeof(CollNetV10) == 18 * sizeof(void*));
static_assert(offsetof(CollNetV10, iallreduce) == 10 * sizeof(void*));

}  // namespace ringpress::abi

#endif  // NCCL_PLUGIN_ABI_NET_V10_H_
