# libringpress-cuda.so: the kernels, target ringpress_cuda. nvcc is called as a command, so that CMake's own
# support of CUDA need not work.
#
# RINGPRESS_CUDA_ARCHITECTURES: those that nvcc knows of 7.0 to 10.0, as a list such as 80;90. Empty, which
# is the default: those of this machine's GPUs. Of the last one there is PTX too, for what comes after it.
# CUDA 13 has dropped 7.0 and 7.2. Without a list and without a GPU the target has all of them, which takes
# long: it is a part of `all` only with RINGPRESS_CUDA=ON.
if(RINGPRESS_CUDA STREQUAL "OFF" OR RINGPRESS_SANITIZE)
  return()
endif()
set(ringpress_without_kernels
    "without libringpress-cuda.so the preloaded library (door A) compresses nothing. Host memory and the \
plugin do not need it. RINGPRESS_CUDA=OFF silences this.")
find_program(RINGPRESS_NVCC nvcc PATHS /usr/local/cuda/bin)
if(NOT RINGPRESS_NVCC)
  if(RINGPRESS_CUDA STREQUAL "ON")
    message(FATAL_ERROR "RINGPRESS_CUDA=ON, but nvcc was not found")
  endif()
  message(WARNING "There is no nvcc, so no kernels for GPUs are built: ${ringpress_without_kernels}")
  return()
endif()

execute_process(COMMAND ${RINGPRESS_NVCC} --list-gpu-arch OUTPUT_VARIABLE known
                OUTPUT_STRIP_TRAILING_WHITESPACE)
set(supported)
foreach(architecture 70 75 80 86 89 90 100)
  if(known MATCHES "compute_${architecture}(\n|$)")
    list(APPEND supported ${architecture})
  endif()
endforeach()
include(${CMAKE_CURRENT_LIST_DIR}/architectures.cmake)
set(RINGPRESS_CUDA_ARCHITECTURES "" CACHE STRING
    "Compute capabilities of the kernels, such as 80;90; empty: of this machine's GPUs")

set(architectures ${RINGPRESS_CUDA_ARCHITECTURES})
if(NOT architectures)
  find_program(RINGPRESS_NVIDIA_SMI nvidia-smi)
  ringpress_architectures_of_gpus("${RINGPRESS_NVIDIA_SMI}" "${supported}" architectures)
endif()
foreach(architecture ${architectures})
  if(NOT architecture IN_LIST supported)
    message(FATAL_ERROR "RINGPRESS_CUDA_ARCHITECTURES=${RINGPRESS_CUDA_ARCHITECTURES}: ${architecture} is not "
                        "one of what this nvcc and this library know: ${supported}")
  endif()
endforeach()
set(by_default)
if(NOT architectures AND RINGPRESS_CUDA STREQUAL "ON")
  set(architectures ${supported})
endif()
if(architectures)
  set(by_default ALL)
  message(STATUS "Kernels for GPUs of compute capability: ${architectures}")
else()
  set(architectures ${supported})
  message(WARNING "There is nvcc but no GPU that it can compile for, and no RINGPRESS_CUDA_ARCHITECTURES, such as "
                  "80;90. So no kernels for GPUs are built by default: ${ringpress_without_kernels} The target "
                  "ringpress_cuda builds them for all of ${supported}, which takes long.")
endif()

set(ringpress_nvcc_flags -std=c++20 -O3 -fmad=false --expt-relaxed-constexpr
    --resource-usage -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/include
    -I${RINGPRESS_MODULE_LAYOUT_FOLDER}
    -cudart static
    -Xcompiler=-fPIC,-Wall,-Wextra,-fvisibility=hidden,-ffp-contract=off)
if(RINGPRESS_WERROR)
  list(APPEND ringpress_nvcc_flags -Werror all-warnings)
endif()
# Named as a folder of its own it would come before the compiler's headers.
if(NOT RANDOM123_INCLUDE STREQUAL "/usr/include")
  list(APPEND ringpress_nvcc_flags -isystem ${RANDOM123_INCLUDE})
endif()
set(last)
foreach(architecture ${architectures})
  list(APPEND ringpress_nvcc_flags
       -gencode=arch=compute_${architecture},code=sm_${architecture})
  set(last ${architecture})
endforeach()
list(APPEND ringpress_nvcc_flags -gencode=arch=compute_${last},code=compute_${last})

# What the compiler says of registers is kept beside each object: perf/kernel_resources.py reads it.
set(objects)
file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/*/*.cu)
foreach(file ${sources} powersgd/shape.cc)
  get_filename_component(name ${file} NAME_WE)
  set(source ${PROJECT_SOURCE_DIR}/compress_kernels/${file})
  set(object ${CMAKE_CURRENT_BINARY_DIR}/cuda/${name}.o)
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/cuda
    COMMAND sh -c "\"$@\" 2>'${object}.txt' || { cat '${object}.txt' >&2; exit 1; }" nvcc
            ${RINGPRESS_NVCC} ${ringpress_nvcc_flags} -MD -MF ${object}.d -c ${source} -o ${object}
    DEPENDS ${source} ${RINGPRESS_MODULE_LAYOUT_HEADER} DEPFILE ${object}.d
    COMMENT "Compiling ${file} for CUDA" VERBATIM)
  list(APPEND objects ${object})
endforeach()

set(module ${CMAKE_BINARY_DIR}/lib/libringpress-cuda.so)
set(exports ${CMAKE_CURRENT_LIST_DIR}/exports.map)
add_custom_command(
  OUTPUT ${module}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/lib
  COMMAND ${RINGPRESS_NVCC} -shared -cudart static
          -Xlinker=--exclude-libs,ALL,-z,defs,--version-script=${exports} -o ${module} ${objects}
  DEPENDS ${objects} ${exports} COMMENT "Linking libringpress-cuda.so" VERBATIM)
add_custom_target(ringpress_cuda ${by_default} DEPENDS ${module})
ringpress_install_kernels(ringpress_cuda ${module} "${by_default}")
