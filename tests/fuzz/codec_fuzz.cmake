# The codec fuzz target: with libFuzzer where the compiler is clang (codec_fuzz, not built by
# default), and on pseudo-random inputs everywhere.
add_executable(codec_fuzz_random ${CMAKE_CURRENT_LIST_DIR}/codec_fuzz.cc
                                 ${CMAKE_CURRENT_LIST_DIR}/codec_fuzz_random.cc)
target_link_libraries(codec_fuzz_random PRIVATE ringpress_codec_data)
add_test(NAME fuzz.codec_random COMMAND codec_fuzz_random)

if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # The codecs once more, instrumented.
  get_target_property(codec_sources ringpress_codecs SOURCES)
  list(TRANSFORM codec_sources PREPEND ${PROJECT_SOURCE_DIR}/compress_kernels/)
  set(alone ${codec_sources})
  list(FILTER alone INCLUDE REGEX "(_host|powersgd/projection)\\.cc$")
  ringpress_compile_alone(${alone})
  # Optimising what two sanitizers watch takes most of the build, for two thirds more inputs a second.
  set_property(SOURCE ${alone} APPEND PROPERTY COMPILE_OPTIONS -O0)
  add_executable(codec_fuzz EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/codec_fuzz.cc
                                             ${PROJECT_SOURCE_DIR}/tests/compress_kernels/codec_data.cc
                                             ${codec_sources})
  target_include_directories(codec_fuzz PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(codec_fuzz SYSTEM PRIVATE ${RANDOM123_INCLUDE})
  # One width of vectors: only the widest that a machine has is ever run.
  target_compile_definitions(codec_fuzz PRIVATE
                             "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_AVX3)"
                             RINGPRESS_FEW_KERNELS)
  target_link_libraries(codec_fuzz PRIVATE ringpress_include ringpress_module_layout PkgConfig::HWY)
  target_compile_options(codec_fuzz PRIVATE -O1 -fsanitize=fuzzer,address,undefined
                                            -fno-sanitize-recover=all)
  target_link_options(codec_fuzz PRIVATE -fsanitize=fuzzer,address,undefined)
endif()
