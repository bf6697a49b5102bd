# The codecs, once more, instrumented.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  get_target_property(codec_sources ringpress_codecs SOURCES)
  list(TRANSFORM codec_sources PREPEND ${PROJECT_SOURCE_DIR}/compress_kernels/)
  set(alone ${codec_sources})
  list(FILTER alone INCLUDE REGEX "(_host|powersgd/projection)\\.cc$")
  ringpress_compile_alone(${alone})
  # Optimising what two sanitizers watch takes most of the build, for two thirds more inputs a second.
  set_property(SOURCE ${alone} APPEND PROPERTY COMPILE_OPTIONS -O0)
  add_library(fuzzed_codecs STATIC EXCLUDE_FROM_ALL ${codec_sources})
  target_include_directories(fuzzed_codecs PUBLIC ${PROJECT_SOURCE_DIR})
  target_include_directories(fuzzed_codecs SYSTEM PRIVATE ${RANDOM123_INCLUDE} ${XXHASH_INCLUDE})
  # One width of vectors: only the widest that a machine has is ever run.
  target_compile_definitions(fuzzed_codecs PUBLIC
                             "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_AVX3)"
                             RINGPRESS_FEW_KERNELS)
  target_link_libraries(fuzzed_codecs PUBLIC ringpress_include ringpress_module_layout PkgConfig::HWY)
  target_compile_options(fuzzed_codecs PUBLIC -O1 -fsanitize=fuzzer,address,undefined
                                              -fno-sanitize-recover=all)
  target_link_options(fuzzed_codecs INTERFACE -fsanitize=fuzzer,address,undefined)
endif()
