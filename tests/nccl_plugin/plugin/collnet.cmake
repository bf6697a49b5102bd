# CollNet of the plugin library, driven by a stand-in for NCCL's proxy.
foreach(test plugin_arguments_test plugin_collnet_test plugin_collnet_recreate_test
        plugin_collnet_trouble_test)
  string(REPLACE plugin_ plugin/ source ${test}.cc)
  add_executable(${test} ${source})
  target_include_directories(${test} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${test} PRIVATE RINGPRESS_PLUGIN="$<TARGET_FILE:ringpress_plugin>")
  if(RINGPRESS_SANITIZE)
    target_compile_definitions(${test} PRIVATE RINGPRESS_SANITIZED)
  endif()
  target_link_libraries(${test} PRIVATE ringpress_include ringpress_transport ringpress_test_tensors
                        GTest::gtest_main Threads::Threads ${CMAKE_DL_LIBS})
  add_dependencies(${test} ringpress_plugin)
  gtest_discover_tests(${test} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endforeach()
target_sources(plugin_collnet_test PRIVATE plugin/collnet_errors_test.cc
               plugin/collnet_exit_test.cc plugin/collnet_heads_test.cc
               plugin/collnet_moments_test.cc plugin/collnet_limit_test.cc plugin/collnet_classes_test.cc
               plugin/collnet_live_test.cc)
target_link_libraries(plugin_collnet_test PRIVATE nlohmann_json::nlohmann_json)
ringpress_label(plugin_collnet_test
  not_tsan CollNet.WithoutAProfilerSlotItIs* CollNetHeadsAlone.A* */CollNetHeads.ErrorFeedbackFinds*
           */CollNetVersions.SumAlikeOnAllNodesAndCompress/V7*)

add_executable(plugin_tensor_registry_test plugin/tensor_registry_test.cc plugin/coll_decisions_test.cc
               plugin/coll_worker_test.cc plugin/object_test.cc)
target_link_libraries(plugin_tensor_registry_test PRIVATE ringpress_plugins GTest::gtest_main
                      Threads::Threads)
if(RINGPRESS_SANITIZE)
  target_compile_definitions(plugin_tensor_registry_test PRIVATE RINGPRESS_SANITIZED)
endif()
gtest_discover_tests(plugin_tensor_registry_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 120)

if(NOT RINGPRESS_SANITIZE)
  # As steady_state_test. Both stand in for calls to the system, which the sanitizers do, too.
  add_executable(plugin_collnet_allocations_test plugin/collnet_allocations_test.cc
                 ../support/call_counter.cc)
  add_executable(plugin_collnet_connect_test plugin/collnet_connect_test.cc)
  foreach(test plugin_collnet_allocations_test plugin_collnet_connect_test)
    set_target_properties(${test} PROPERTIES ENABLE_EXPORTS ON)
    target_include_directories(${test} PRIVATE ${PROJECT_SOURCE_DIR})
    target_compile_definitions(${test} PRIVATE RINGPRESS_PLUGIN="$<TARGET_FILE:ringpress_plugin>")
    target_link_libraries(${test} PRIVATE ringpress_include ringpress_transport
                          ringpress_test_tensors GTest::gtest_main Threads::Threads ${CMAKE_DL_LIBS})
    add_dependencies(${test} ringpress_plugin)
    gtest_discover_tests(${test} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 120)
  endforeach()
endif()
