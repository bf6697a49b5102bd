# The tuner and the environment plugin.
add_executable(plugin_tuner_test plugin_collnet_policy_test.cc plugin_env_test.cc
               plugin_tuner_test.cc)
target_link_libraries(plugin_tuner_test PRIVATE ringpress_plugins GTest::gtest_main Threads::Threads)
gtest_discover_tests(plugin_tuner_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 120)
