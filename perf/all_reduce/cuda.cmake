# all_reduce_perf on GPU memory: an ordinary client of the machine's own NCCL. So one program measures
# plain NCCL, and NCCL with this library's plugin. Not built where CUDA's header or NCCL is missing.
#
# Of CUDA it needs the driver, when it runs; of NCCL any libnccl.so.2. With LD_LIBRARY_PATH both may
# come from elsewhere than on the machine that built it.
if(NOT RINGPRESS_HAVE_CUDA OR NOT RINGPRESS_HAVE_NCCL)
  return()
endif()
find_library(RINGPRESS_NCCL_LIBRARY NAMES nccl libnccl.so.2
             PATHS /usr/local/cuda/lib64 /usr/local/cuda/lib)
find_file(RINGPRESS_CUDA_DRIVER_HEADER cuda.h PATHS ${RINGPRESS_CUDA_INCLUDE} NO_DEFAULT_PATH)
if(NOT RINGPRESS_NCCL_LIBRARY OR NOT RINGPRESS_CUDA_DRIVER_HEADER)
  return()
endif()

add_executable(all_reduce_perf_cuda all_reduce/main.cc all_reduce/cuda_memory.cc)
target_include_directories(all_reduce_perf_cuda PRIVATE SYSTEM ${RINGPRESS_CUDA_INCLUDE})
target_link_libraries(all_reduce_perf_cuda PRIVATE
                      ringpress_all_reduce_parts fmt::fmt-header-only ${RINGPRESS_NCCL_LIBRARY}
                      Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(all_reduce_perf_cuda PRIVATE LINKER:--enable-new-dtags)
if(NOT RINGPRESS_SANITIZE)
  target_link_options(all_reduce_perf_cuda PRIVATE -static-libstdc++ -static-libgcc)
endif()
