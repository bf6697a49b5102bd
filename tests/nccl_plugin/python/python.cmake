# The Python package, on the library of this build. Not for sanitizers: Python does not link them.
if(NOT RINGPRESS_SANITIZE)
  # Debian's, with its torch: where another Python comes first, that one may have neither.
  find_program(RINGPRESS_TEST_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
  if(NOT RINGPRESS_TEST_PYTHON)
    set(RINGPRESS_TEST_PYTHON ${Python3_EXECUTABLE})
  endif()
  foreach(part package torch_backend torch_training)
    add_test(NAME python.${part}
             COMMAND ${RINGPRESS_TEST_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/python/${part}_test.py)
    set_tests_properties(python.${part} PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77 ENVIRONMENT
      "PYTHONPATH=${PROJECT_SOURCE_DIR}/nccl_plugin/python;RINGPRESS_LIBRARY=$<TARGET_FILE:ringpress>;TORCH_EXTENSIONS_DIR=${CMAKE_CURRENT_BINARY_DIR}/torch_extensions;RINGPRESS_SOCKET_IFNAME=lo")
  endforeach()
  ringpress_begin_early(60 python.torch_backend)
endif()
