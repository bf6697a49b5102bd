# The tuner and the environment plugin.
ringpress_compile_alone(plugin/tuner_test.cc)
add_executable(plugin_tuner_test plugin/collnet_policy_test.cc plugin/env_test.cc
               plugin/tuner_test.cc plugin/tuner_variables_test.cc)
target_link_libraries(plugin_tuner_test PRIVATE ringpress_plugins GTest::gtest_main Threads::Threads)
gtest_discover_tests(plugin_tuner_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 120)

# The library's exports against what real NCCL binaries look up (tests/nccl_versions.sh).
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(nccl_versions Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/plugin/nccl_versions.py)
add_test(NAME nccl_plugin.nccl_versions
         COMMAND ${nccl_versions} check $<TARGET_FILE:ringpress_plugin>
                 ${PROJECT_SOURCE_DIR}/tests/nccl_versions.txt)
add_test(NAME nccl_plugin.nccl_versions_self_test COMMAND ${nccl_versions} self-test)
