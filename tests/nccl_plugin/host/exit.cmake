# Programs that end in many ways: at door C, and at door A before the stand-in for NVIDIA's library.
foreach(nccl ringpress fake_nccl)
  add_executable(exit_client_${nccl} host/exit_client.c)
  target_include_directories(exit_client_${nccl} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(exit_client_${nccl} PRIVATE ${nccl} Threads::Threads)
  target_link_options(exit_client_${nccl} PRIVATE LINKER:--enable-new-dtags)  # RUNPATH.
endforeach()
set(exit_test Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/host/exit_test.py)
add_test(NAME nccl_plugin.exit_host
         COMMAND ${exit_test} $<TARGET_FILE:exit_client_ringpress> $<TARGET_FILE:ringpress>)
add_test(NAME nccl_plugin.exit_preload
         COMMAND ${exit_test} $<TARGET_FILE:exit_client_fake_nccl> $<TARGET_FILE:fake_nccl>
                 $<TARGET_FILE:ringpress_preload>)
set_tests_properties(nccl_plugin.exit_host nccl_plugin.exit_preload PROPERTIES TIMEOUT 300)
if(RINGPRESS_SANITIZE)
  set_tests_properties(nccl_plugin.exit_host nccl_plugin.exit_preload PROPERTIES
                       ENVIRONMENT RINGPRESS_SANITIZED=1)
endif()
