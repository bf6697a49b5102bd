// Network and collective-network plugin, version 7. NCCL 2.19 and later.
#ifndef NCCL_PLUGIN_ABI_NET_V7_H_
#define NCCL_PLUGIN_ABI_NET_V7_H_

#include "nccl_plugin/abi/types.h"

namespace ringpress::abi {

struct NetPropertiesV7 {
  char* name;
  char* pci_path;       // In /sys; null: not known.
  std::uint64_t guid;   // Of the chip.
  int pointer_support;  // kPointer bits.
  int speed_mbps;
  int port;
  float latency_us;
  int max_comms;
  int max_receives;  // Of one irecv.
  NetDeviceType device_type;
  int device_version;
};
static_assert(sizeof(NetPropertiesV7) == 56);
static_assert(offsetof(NetPropertiesV7, speed_mbps) == 28);
static_assert(offsetof(NetPropertiesV7, device_version) == 52);

struct NetV7 {
  const char* name;
  ncclResult_t (*init)(Logger log);
  ncclResult_t (*devices)(int* count);
  ncclResult_t (*get_properties)(int device, NetPropertiesV7* properties);
  ncclResult_t (*listen)(int device, void* handle, void** listen_comm);
  ncclResult_t (*connect)(int device, void* handle, void** send_comm,
                          NetDeviceHandle** device_comm);
  ncclResult_t (*accept)(void* listen_comm, void** receive_comm, NetDeviceHandle** device_comm);
  ncclResult_t (*reg_mr)(void* comm, void* data, int size, int type, void** mhandle);
  ncclResult_t (*reg_mr_dma_buf)(void* comm, void* data, std::size_t size, int type,
                                 std::uint64_t offset, int descriptor, void** mhandle);
  ncclResult_t (*dereg_mr)(void* comm, void* mhandle);
  ncclResult_t (*isend)(void* send_comm, void* data, int size, int tag, void* mhandle,
                        void** request);
  ncclResult_t (*irecv)(void* receive_comm, int count, void** data, int* sizes, int* tags,
                        void** mhandles, void** request);
  ncclResult_t (*iflush)(void* receive_comm, int count, void** data, int* sizes, void** mhandles,
                         void** request);
  ncclResult_t (*test)(void* request, int* done, int* sizes);
  ncclResult_t (*close_send)(void* send_comm);
  ncclResult_t (*close_receive)(void* receive_comm);
  ncclResult_t (*close_listen)(void* listen_comm);
  ncclResult_t (*get_device_mr)(void* comm, void* mhandle, void** device_mhandle);
  ncclResult_t (*irecv_consumed)(void* receive_comm, int count, void* request);
};
static_assert(sizeof(NetV7) == 19 * sizeof(void*));
static_assert(offsetof(NetV7, test) == 13 * sizeof(void*));

struct CollNetV7 {
  const char* name;
  ncclResult_t (*init)(Logger log);
  ncclResult_t (*devices)(int* count);
  ncclResult_t (*get_properties)(int device, NetPropertiesV7* properties);
  ncclResult_t (*listen)(int device, void* handle, void** listen_comm);
  ncclResult_t (*connect)(void** handles, int count, int rank, void* listen_comm, void** coll_comm);
  ncclResult_t (*reduce_support)(DataTypeNumber type, OperationNumber op, int* supported);
  ncclResult_t (*reg_mr)(void* coll_comm, void* data, int size, int type, void** mhandle);
  ncclResult_t (*reg_mr_dma_buf)(void* coll_comm, void* data, std::size_t size, int type,
                                 std::uint64_t offset, int descriptor, void** mhandle);
  ncclResult_t (*dereg_mr)(void* coll_comm, void* mhandle);
  ncclResult_t (*iallreduce)(void* coll_comm, void* send, void* receive, int count,
                             DataTypeNumber type, OperationNumber op, void* send_mhandle,
                             void* receive_mhandle, void** request);
  ncclResult_t (*iflush)(void* coll_comm, void* data, int size, void* mhandle, void** request);
  ncclResult_t (*test)(void* request, int* done, int* size);
  ncclResult_t (*close_coll)(void* coll_comm);
  ncclResult_t (*close_listen)(void* listen_comm);
};
static_assert(sizeof(CollNetV7) == 15 * sizeof(void*));
static_assert(offsetof(CollNetV7, iallreduce) == 10 * sizeof(void*));

}  // namespace ringpress::abi

#endif  // NCCL_PLUGIN_ABI_NET_V7_H_
