/* Where the real NCCL is. */
#ifndef NCCL_PLUGIN_PRELOAD_FIND_NCCL_H_
#define NCCL_PLUGIN_PRELOAD_FIND_NCCL_H_

/* A handle for dlsym(), or null. Looks, in this order: at RINGPRESS_REAL_NCCL (an absolute path),
 * at what comes after the shim in the order of linking, at what the process has loaded under any
 * name that begins with libnccl.so, at RPATH, LD_LIBRARY_PATH and RUNPATH (where the linker does
 * not look, since the shim has that name), beside the frameworks that the process has loaded, where
 * the dynamic linker looks, and where Python wheels and packages put it. Never returns a shim. In
 * secure execution the environment is not asked. */
void* ringpress_find_nccl(void);

/* Why a library is not to be opened, or null: then the dynamic linker says what is wrong with it.
 */
const char* ringpress_why_not_open(const char* path);

/* Writes "ringpress [pid] WARN text" to standard error; nothing with RINGPRESS_DEBUG=error. */
__attribute__((format(printf, 1, 2))) void ringpress_preload_warn(const char* format, ...);

#endif /* NCCL_PLUGIN_PRELOAD_FIND_NCCL_H_ */
