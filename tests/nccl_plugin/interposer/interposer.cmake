# The engine behind the preloaded shim, on host memory and on a stand-in for CUDA.
add_executable(interposer_test
  interposer/agreement_test.cc
  interposer/comm_parts_test.cc
  interposer/call_options_test.cc
  interposer/classes_test.cc
  interposer/guard_test.cc
  interposer/hier_test.cc
  interposer/interfaces_test.cc
  interposer/live_test.cc
  interposer/late_ranks_test.cc
  interposer/meeting_test.cc
  interposer/order_test.cc
  interposer/place_test.cc
  interposer/projection_test.cc
  interposer/rules_test.cc
  interposer/statistics_test.cc
  interposer/interposer_test.cc
  interposer/warm_up_test.cc
  interposer/scales_test.cc
  interposer/grow_test.cc
  interposer/inheritance_test.cc
)
if(NOT RINGPRESS_SANITIZE)
  target_sources(interposer_test PRIVATE interposer/threads_test.cc)
endif()
target_include_directories(interposer_test PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(interposer_test PRIVATE $<TARGET_OBJECTS:ringpress_interposer>
  ringpress_session ringpress_gossip ringpress_transport ringpress_codecs ringpress_tuner ringpress_firewall
  GTest::gtest_main Threads::Threads ${CMAKE_DL_LIBS})
target_compile_definitions(interposer_test PRIVATE FAKE_NCCL="$<TARGET_FILE:fake_nccl>")
add_dependencies(interposer_test fake_nccl)
gtest_discover_tests(interposer_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
ringpress_label(interposer_test
  not_tsan Interposer.ErrorFeedbackMakesUp* InterposerAgreement.CodesAverageOut */SameBytesAsTheHost.*)

if(NOT RINGPRESS_SANITIZE)  # They replace the C library's allocator, too.
  add_executable(interposer_allocations_test interposer/allocations_test.cc
                 interposer/memory_test.cc ../support/call_counter.cc)
  target_include_directories(interposer_allocations_test PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(interposer_allocations_test PRIVATE $<TARGET_OBJECTS:ringpress_interposer>
    ringpress_session ringpress_gossip ringpress_transport ringpress_codecs ringpress_tuner ringpress_firewall
    GTest::gtest_main Threads::Threads ${CMAKE_DL_LIBS})
  target_compile_definitions(interposer_allocations_test PRIVATE
    FAKE_NCCL="$<TARGET_FILE:fake_nccl>")
  add_dependencies(interposer_allocations_test fake_nccl)
  gtest_discover_tests(interposer_allocations_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endif()

# The CUDA device as it is, with a runtime on host memory in CUDA's place, and beside the test, where
# it is looked for.
set(fake_cuda ${CMAKE_CURRENT_SOURCE_DIR}/../support/fake_cuda)
set(cuda_kernels ${PROJECT_SOURCE_DIR}/compress_kernels)
add_library(fake_cudart SHARED ${fake_cuda}/fake_cudart.cc)
target_include_directories(fake_cudart BEFORE PUBLIC ${fake_cuda} ${PROJECT_SOURCE_DIR})
set_target_properties(fake_cudart PROPERTIES CXX_VISIBILITY_PRESET default)
target_link_libraries(fake_cudart PRIVATE Threads::Threads)
add_library(fake_cuda_module MODULE ${fake_cuda}/fake_kernels.cc
            ${CMAKE_CURRENT_SOURCE_DIR}/../compress_kernels/fiber_chunk_topk.cc
            ${CMAKE_CURRENT_SOURCE_DIR}/../compress_kernels/fiber_projection.cc
            ${cuda_kernels}/cuda/cuda_device.cu)
# It instantiates what the other sources specialise.
ringpress_compile_alone(${fake_cuda}/fake_kernels.cc)
target_include_directories(fake_cuda_module SYSTEM PRIVATE ${RANDOM123_INCLUDE})
set_source_files_properties(${cuda_kernels}/cuda/cuda_device.cu PROPERTIES
  LANGUAGE CXX COMPILE_OPTIONS "-xc++")
set_target_properties(fake_cuda_module PROPERTIES OUTPUT_NAME ringpress-cuda
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/cuda)
target_link_libraries(fake_cuda_module PRIVATE fake_cudart ringpress_codecs ringpress_include
                      ringpress_module_layout)

add_executable(interposer_cuda_test
  interposer/gossip_test.cc
  interposer/graph_test.cc
  interposer/lazy_test.cc
  interposer/lazy_votes_test.cc
  interposer/steps_test.cc
  interposer/trace_test.cc
  interposer/cuda_scales_test.cc
)
target_include_directories(interposer_cuda_test PRIVATE ${PROJECT_SOURCE_DIR})
set_target_properties(interposer_cuda_test PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/cuda)
target_link_libraries(interposer_cuda_test PRIVATE $<TARGET_OBJECTS:ringpress_interposer>
  ringpress_session ringpress_gossip ringpress_transport ringpress_codecs ringpress_tuner ringpress_firewall
  fake_cudart GTest::gtest_main Threads::Threads ${CMAKE_DL_LIBS})
target_compile_definitions(interposer_cuda_test PRIVATE FAKE_NCCL="$<TARGET_FILE:fake_nccl>")
if(RINGPRESS_SANITIZE)
  target_compile_definitions(interposer_cuda_test PRIVATE RINGPRESS_SANITIZED)
endif()
add_dependencies(interposer_cuda_test fake_nccl fake_cuda_module)
gtest_discover_tests(interposer_cuda_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
set(slow_values */CudaGraph.CallsAreCompressedIfAskedFor/sra_topk* Cuda.ATensorThatOneRankHas*
                InterposerLazyHosts.ErrorFeedback*)
ringpress_label(interposer_cuda_test
  not_asan ${slow_values}
  not_tsan ${slow_values}
           Cuda.CapturedProjectionsGoOn Cuda.ProjectionsAreTheHosts Cuda.SameBytesAsHostMemory)
