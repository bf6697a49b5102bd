# libFuzzer: every parser of bytes that come from outside. Clang only.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_executable(frame_fuzz
    ${CMAKE_CURRENT_SOURCE_DIR}/frame_fuzz.cc
    ${PROJECT_SOURCE_DIR}/ring/bootstrap/agreement.cc
    ${PROJECT_SOURCE_DIR}/ring/bootstrap/message.cc
    ${PROJECT_SOURCE_DIR}/ring/bootstrap/unique_id.cc
    ${PROJECT_SOURCE_DIR}/ring/transport/common/aead.cc
    ${PROJECT_SOURCE_DIR}/ring/transport/common/aead_openssl.cc
    ${PROJECT_SOURCE_DIR}/ring/transport/common/crc32c.cc
    ${PROJECT_SOURCE_DIR}/ring/transport/common/frame.cc
    ${PROJECT_SOURCE_DIR}/ring/transport/common/hello.cc
    ${PROJECT_SOURCE_DIR}/ring/transport/common/records.cc
    ${PROJECT_SOURCE_DIR}/ring/transport/common/session_keys.cc
    ${PROJECT_SOURCE_DIR}/ring/transport/common/socket.cc
    ${PROJECT_SOURCE_DIR}/ring/transport/common/stream.cc
  )
  target_include_directories(frame_fuzz PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(frame_fuzz SYSTEM PRIVATE ${SODIUM_INCLUDE})
  target_link_libraries(frame_fuzz PRIVATE ringpress_include PkgConfig::ISAL ${SODIUM_STATIC})
  target_compile_options(frame_fuzz PRIVATE -fsanitize=fuzzer,address,undefined
                         -fno-sanitize-recover=all)
  target_link_options(frame_fuzz PRIVATE -fsanitize=fuzzer,address,undefined)
endif()
