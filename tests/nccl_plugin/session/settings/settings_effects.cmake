# Each variable of the settings table, and NCCL's own, at the door where it is seen. It lies beside
# the stand-in for CUDA's kernels.
set(rows calls choices connections doors files library plugin streams)
list(TRANSFORM rows REPLACE "(.+)" "session/settings/setting_rows_\\1.cc")
add_executable(settings_effects_test session/settings/settings_effects_test.cc ${rows})
ringpress_compile_alone(session/settings/setting_rows_plugin.cc)
target_include_directories(settings_effects_test PRIVATE ${PROJECT_SOURCE_DIR})
set_target_properties(settings_effects_test PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/cuda)
target_link_libraries(settings_effects_test PRIVATE $<TARGET_OBJECTS:ringpress_interposer>
  ringpress_session ringpress_gossip ringpress_transport ringpress_codecs ringpress_tuner
  ringpress_firewall ringpress_test_tensors fake_cudart GTest::gtest_main Threads::Threads
  ${CMAKE_DL_LIBS})
target_compile_definitions(settings_effects_test PRIVATE
  FAKE_NCCL="$<TARGET_FILE:fake_nccl>" SHIM="$<TARGET_FILE:ringpress_preload>"
  SHIM_AS_NCCL="$<TARGET_FILE:ringpress_preload_soname>" CLIENT="$<TARGET_FILE:preload_client>"
  OPENING_CLIENT="$<TARGET_FILE:preload_client_dlopen>"
  RINGPRESS_LIBRARY="$<TARGET_FILE:ringpress>" RINGPRESS_PLUGIN="$<TARGET_FILE:ringpress_plugin>"
  FAKE_NET="${CMAKE_CURRENT_BINARY_DIR}/libnccl-net-fake7to12.so")
if(RINGPRESS_HAVE_NVTX)
  target_compile_definitions(settings_effects_test PRIVATE
    NVTX_RECORDER="$<TARGET_FILE:nvtx_recorder>")
  add_dependencies(settings_effects_test nvtx_recorder)
endif()
if(RINGPRESS_SANITIZE)
  target_compile_definitions(settings_effects_test PRIVATE RINGPRESS_SANITIZED)
endif()
add_dependencies(settings_effects_test fake_nccl fake_cuda_module preload_client preload_client_dlopen
                 ringpress_preload
                 ringpress_preload_soname ringpress ringpress_plugin nccl-net-fake7to12)
gtest_discover_tests(settings_effects_test TEST_PREFIX settings. DISCOVERY_TIMEOUT 60
                     NO_PRETTY_VALUES
                     PROPERTIES TIMEOUT 300)
