# One row per codec, type, operation and instruction set.
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)

add_executable(codec_perf ${CMAKE_CURRENT_LIST_DIR}/codec_perf.cc
                          ${CMAKE_CURRENT_LIST_DIR}/codec_values.cc)
target_link_libraries(codec_perf PRIVATE ringpress_codecs CLI11::CLI11 nlohmann_json::nlohmann_json
                      fmt::fmt)
set_target_properties(codec_perf PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/perf)

# The same on a GPU: kernels of libringpress-cuda.so. Of CUDA it needs the driver, when it runs.
if(RINGPRESS_HAVE_CUDA)
  find_file(RINGPRESS_CUDA_DRIVER_HEADER cuda.h PATHS ${RINGPRESS_CUDA_INCLUDE} NO_DEFAULT_PATH)
endif()
if(RINGPRESS_CUDA_DRIVER_HEADER)
  add_executable(codec_perf_cuda
    ${CMAKE_CURRENT_LIST_DIR}/codec_cuda/gpu_timer.cc ${CMAKE_CURRENT_LIST_DIR}/codec_cuda/main.cc
    ${CMAKE_CURRENT_LIST_DIR}/codec_values.cc)
  target_include_directories(codec_perf_cuda SYSTEM PRIVATE ${RINGPRESS_CUDA_INCLUDE})
  target_link_libraries(codec_perf_cuda PRIVATE ringpress_codecs CLI11::CLI11
                        nlohmann_json::nlohmann_json fmt::fmt-header-only ${CMAKE_DL_LIBS})
  set_target_properties(codec_perf_cuda PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/perf BUILD_RPATH "$ORIGIN/../lib")
endif()
