# The network of the plugin library, loaded as NCCL loads it.
set(plugin_library RINGPRESS_PLUGIN="$<TARGET_FILE:ringpress_plugin>")

add_executable(plugin_net_test plugin_net_test.cc)
target_include_directories(plugin_net_test PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_definitions(plugin_net_test PRIVATE ${plugin_library})
target_link_libraries(plugin_net_test PRIVATE ringpress_include GTest::gtest_main Threads::Threads
                      ${CMAKE_DL_LIBS})
add_dependencies(plugin_net_test ringpress_plugin)
gtest_discover_tests(plugin_net_test DISCOVERY_TIMEOUT 60
                     PROPERTIES TIMEOUT 300 ENVIRONMENT "RINGPRESS_DEBUG=error")
