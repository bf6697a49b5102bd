# Tests of door A: the preloaded shim, the engine behind it, and a stand-in for NVIDIA's library.
set(exports ${PROJECT_SOURCE_DIR}/nccl_plugin/host/exports.map)
add_library(fake_nccl SHARED ../support/fake_nccl.cc $<TARGET_OBJECTS:ringpress_door>)
target_link_libraries(fake_nccl PRIVATE ringpress_session ringpress_gossip ringpress_firewall Threads::Threads)
set_target_properties(fake_nccl PROPERTIES PREFIX "" OUTPUT_NAME libnccl.so.2 SUFFIX "" NO_SONAME ON
  LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fake)
target_link_options(fake_nccl PRIVATE LINKER:-soname,libnccl.so.2 LINKER:--version-script=${exports}
  LINKER:-z,nodelete LINKER:--wrap=_ZN9ringpress25settings_from_environmentEv)

# The program: linked with NCCL, and opening it.
add_executable(preload_client preload/client.c preload/scenarios.c)
target_include_directories(preload_client PRIVATE ${PROJECT_SOURCE_DIR}/include
                                                  ${PROJECT_SOURCE_DIR})
target_link_libraries(preload_client PRIVATE fake_nccl m ${CMAKE_DL_LIBS})
target_link_options(preload_client PRIVATE LINKER:--enable-new-dtags)  # RUNPATH.
add_executable(preload_client_dlopen preload/client.c preload/scenarios.c)
target_include_directories(preload_client_dlopen PRIVATE ${PROJECT_SOURCE_DIR}/include
                                                         ${PROJECT_SOURCE_DIR})
target_compile_definitions(preload_client_dlopen PRIVATE CLIENT_OPENS_NCCL)
target_link_libraries(preload_client_dlopen PRIVATE m ${CMAKE_DL_LIBS})

add_library(secure_process SHARED ../support/secure_process.c)
target_link_libraries(secure_process PRIVATE ${CMAKE_DL_LIBS})
target_compile_options(secure_process PRIVATE -fno-sanitize=all)
target_link_options(secure_process PRIVATE -fno-sanitize=all)

add_library(partial_nccl SHARED ../support/partial_nccl.c)
target_link_libraries(partial_nccl PRIVATE ringpress_include)
target_link_options(partial_nccl PRIVATE -fno-sanitize=all)
target_compile_options(partial_nccl PRIVATE -fno-sanitize=all)

add_library(needs_nccl SHARED ../support/needs_nccl.c)
target_link_libraries(needs_nccl PRIVATE ringpress_include fake_nccl)
target_link_options(needs_nccl PRIVATE LINKER:--enable-new-dtags -fno-sanitize=all)
target_compile_options(needs_nccl PRIVATE -fno-sanitize=all)

add_executable(preload_test preload/scenarios_test.cc preload/preload_test.cc)
if(NOT RINGPRESS_SANITIZE STREQUAL "thread")
  target_sources(preload_test PRIVATE preload/python_test.cc)
endif()
if(NOT RINGPRESS_SANITIZE)
  target_sources(preload_test PRIVATE preload/fork_test.cc)
endif()
if(RINGPRESS_SANITIZE)
  target_compile_definitions(preload_test PRIVATE RINGPRESS_SANITIZED)
endif()
target_include_directories(preload_test PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(preload_test PRIVATE GTest::gtest_main ${CMAKE_DL_LIBS})
target_compile_definitions(preload_test PRIVATE
  FAKE_NCCL="$<TARGET_FILE:fake_nccl>" SHIM="$<TARGET_FILE:ringpress_preload>"
  RINGPRESS_LIBRARY="$<TARGET_FILE:ringpress>"
  SECURE_PROCESS="$<TARGET_FILE:secure_process>"
  SHIM_AS_NCCL="$<TARGET_FILE:ringpress_preload_soname>"
  PARTIAL_NCCL="$<TARGET_FILE:partial_nccl>" NEEDS_NCCL="$<TARGET_FILE:needs_nccl>"
  CLIENT="$<TARGET_FILE:preload_client>" OPENING_CLIENT="$<TARGET_FILE:preload_client_dlopen>"
  PYTHON="${Python3_EXECUTABLE}" PYTHON_CLIENT="${CMAKE_CURRENT_SOURCE_DIR}/preload/client.py")
add_dependencies(preload_test secure_process partial_nccl needs_nccl fake_nccl preload_client
                 preload_client_dlopen ringpress_preload ringpress_preload_soname)
gtest_discover_tests(preload_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
ringpress_label(preload_test
  not_tsan Preload.ARingGoes* Preload.RanksOfAHost* Preload.TopkTakesItsForm* */EveryWay.*)

# The programs that a tool is told of are those above.
if(RINGPRESS_HAVE_NVTX)
  add_executable(nvtx_test session/live/nvtx_test.cc)
  target_include_directories(nvtx_test PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(nvtx_test PRIVATE nlohmann_json::nlohmann_json GTest::gtest_main)
  target_compile_definitions(nvtx_test PRIVATE
    NVTX_RECORDER="$<TARGET_FILE:nvtx_recorder>" FAKE_NCCL="$<TARGET_FILE:fake_nccl>"
    SHIM="$<TARGET_FILE:ringpress_preload>" CLIENT="$<TARGET_FILE:preload_client>"
    HOST_FOLDER="$<TARGET_FILE_DIR:ringpress>/host")
  add_dependencies(nvtx_test nvtx_recorder fake_nccl preload_client ringpress ringpress_preload)
  gtest_discover_tests(nvtx_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endif()

# The same job on the real NCCL's stand-in, preloaded.
if(NOT RINGPRESS_SANITIZE)
  add_executable(elastic_preloaded elastic/elastic.cc elastic/rank.cc)
  target_include_directories(elastic_preloaded PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(elastic_preloaded PRIVATE fake_nccl Threads::Threads)
  add_dependencies(elastic_preloaded ringpress_preload)
  add_test(NAME nccl_plugin.elastic_preloaded COMMAND elastic_preloaded --rounds 5 --seed 2)
  set_tests_properties(nccl_plugin.elastic_preloaded PROPERTIES TIMEOUT 300
    FAIL_REGULAR_EXPRESSION "left to plain NCCL" ENVIRONMENT
    "LD_PRELOAD=$<TARGET_FILE:ringpress_preload>;RINGPRESS_REAL_NCCL=$<TARGET_FILE:fake_nccl>;RINGPRESS_BACKEND=host;RINGPRESS_CODEC=q4;RINGPRESS_SOCKET_IFNAME=lo")
endif()

# What tests/frameworks.sh says of wheels, on programs of this project. A sanitizer's library would come
# before all others.
if(NOT RINGPRESS_SANITIZE)
  add_library(trampoline SHARED preload/trampoline.c)
  target_link_libraries(trampoline PRIVATE ${CMAKE_DL_LIBS})
  add_test(NAME nccl_plugin.frameworks
           COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/preload/frameworks_test.py
                   $<TARGET_FILE_DIR:ringpress_preload> $<TARGET_FILE:fake_nccl>
                   $<TARGET_FILE:preload_client> $<TARGET_FILE:preload_client_dlopen>
                   $<TARGET_FILE:trampoline>)
endif()

foreach(shim ringpress_preload ringpress_preload_soname)
  add_test(NAME layout.${shim}_exports
           COMMAND Python3::Interpreter -B ${PROJECT_SOURCE_DIR}/tests/layout/shim_exports_test.py
                   $<TARGET_FILE:${shim}> ${PROJECT_SOURCE_DIR}/include/ringpress/nccl.h
                   ${PROJECT_SOURCE_DIR}/nccl_plugin/preload/newer_functions.txt)
  set_tests_properties(layout.${shim}_exports PROPERTIES LABELS layout)
endforeach()
