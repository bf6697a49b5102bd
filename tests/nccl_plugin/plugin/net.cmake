# The network of the plugin library, loaded as NCCL loads it.
function(add_plugin_net_test name)
  string(REPLACE plugin_ plugin/ source ${name}.cc)
  add_executable(${name} ${source})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE RINGPRESS_PLUGIN="$<TARGET_FILE:ringpress_plugin>"
                             FAKE_NET_FOLDER="${CMAKE_CURRENT_BINARY_DIR}"
                             FAKE_NET="${CMAKE_CURRENT_BINARY_DIR}/libnccl-net-fake7to12.so")
  target_link_libraries(${name} PRIVATE ringpress_include GTest::gtest_main Threads::Threads
                        ${CMAKE_DL_LIBS} ${ARGN})
  add_dependencies(${name} ringpress_plugin ${fake_nets})
  # Two properties: a list of variables does not come through.
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300
                       ENVIRONMENT RINGPRESS_DEBUG=error ENVIRONMENT_MODIFICATION
                       LD_LIBRARY_PATH=path_list_prepend:${CMAKE_CURRENT_BINARY_DIR})
endfunction()

# Network plugins that carry nothing, of these versions.
foreach(versions 7:7 7:12 8:9 10:10 11:11 12:12)
  string(REGEX MATCH "(.*):(.*)" versions ${versions})
  set(fake nccl-net-fake${CMAKE_MATCH_1}to${CMAKE_MATCH_2})
  add_library(${fake} SHARED plugin/fake_net.cc)
  target_include_directories(${fake} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${fake} PRIVATE ringpress_include)
  target_compile_definitions(${fake} PRIVATE FAKE_NET_LEAST=${CMAKE_MATCH_1}
                             FAKE_NET_MOST=${CMAKE_MATCH_2})
  list(APPEND fake_nets ${fake})
endforeach()

add_plugin_net_test(plugin_net_test)
target_sources(plugin_net_test PRIVATE plugin/registered_memory_test.cc)
add_plugin_net_test(plugin_net_process_test)
add_plugin_net_test(plugin_next_net_test)
add_plugin_net_test(plugin_device_test ringpress_plugins ringpress_session ringpress_transport)

add_executable(plugin_load plugin/load.c)
target_link_libraries(plugin_load PRIVATE ${CMAKE_DL_LIBS})
add_test(NAME nccl_plugin.plugin_load
         COMMAND plugin_load $<TARGET_FILE:ringpress_plugin>)

# Beside the preloaded library, in front of a stand-in for NCCL.
add_library(encrypting_nccl SHARED ../support/encrypting_nccl.c)
target_link_libraries(encrypting_nccl PRIVATE ringpress_include)
target_link_options(encrypting_nccl PRIVATE -fno-sanitize=all)
target_compile_options(encrypting_nccl PRIVATE -fno-sanitize=all)
add_executable(plugin_encryption_test plugin/encryption_test.cc)
target_include_directories(plugin_encryption_test PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_definitions(plugin_encryption_test PRIVATE
  RINGPRESS_PLUGIN="$<TARGET_FILE:ringpress_plugin>"
  ENCRYPTING_NCCL="$<TARGET_FILE:encrypting_nccl>" SHIM="$<TARGET_FILE:ringpress_preload>"
  SHIM_AS_NCCL="$<TARGET_FILE:ringpress_preload_soname>")
target_link_libraries(plugin_encryption_test PRIVATE ringpress_include GTest::gtest_main
                      Threads::Threads ${CMAKE_DL_LIBS})
add_dependencies(plugin_encryption_test ringpress_plugin ringpress_preload ringpress_preload_soname
                 encrypting_nccl)
gtest_discover_tests(plugin_encryption_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 60)
