# Door A: the shim that a program preloads, in two outputs of the same objects, and what it opens.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
enable_language(ASM)

set(preload ${CMAKE_CURRENT_SOURCE_DIR}/preload)
set(generated ${CMAKE_CURRENT_BINARY_DIR}/preload)
add_custom_command(
  OUTPUT ${generated}/trampolines.S ${generated}/functions.inc ${generated}/hooks.inc
  COMMAND Python3::Interpreter -B ${preload}/generate.py ${PROJECT_SOURCE_DIR}/include/ringpress/nccl.h
          ${preload}/engine.h ${preload}/newer_functions.txt ${generated}
  DEPENDS ${preload}/generate.py ${preload}/engine.h ${preload}/newer_functions.txt
          ${PROJECT_SOURCE_DIR}/include/ringpress/nccl.h
  VERBATIM)

add_library(ringpress_preload_objects OBJECT
  preload/find_nccl.c
  preload/shim.c
  ${generated}/functions.inc
  ${generated}/hooks.inc
  ${generated}/trampolines.S
)
target_include_directories(ringpress_preload_objects PRIVATE ${PROJECT_SOURCE_DIR} ${generated})
target_link_libraries(ringpress_preload_objects PRIVATE ringpress_include)
target_compile_definitions(ringpress_preload_objects PRIVATE
  MACHINE="${CMAKE_SYSTEM_PROCESSOR}" RINGPRESS_ENGINE_FILE="libringpress.so.${PROJECT_VERSION_MAJOR}")
# It stands before everything else in the process: nothing in it may need a runtime library.
target_compile_options(ringpress_preload_objects PRIVATE -fno-sanitize=all -O2)

# libringpress-preload.so catches programs that were linked with NCCL. preload/libnccl.so.2 also
# answers those that open NCCL by that name.
function(add_shim target name folder installed)
  set(map ${CMAKE_CURRENT_SOURCE_DIR}/preload/preload.map)
  add_library(${target} SHARED $<TARGET_OBJECTS:ringpress_preload_objects>)
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${name} SUFFIX "" NO_SONAME ON
    LINKER_LANGUAGE C LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/${folder}
    LINK_DEPENDS ${map})
  target_link_options(${target} PRIVATE -fno-sanitize=all
    LINKER:--version-script=${map} LINKER:-z,now LINKER:-z,relro LINKER:-z,nodelete LINKER:-z,defs
    LINKER:-soname,${name} LINKER:--as-needed)
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
  # Opened by name at run time.
  add_dependencies(${target} ringpress)
  ringpress_install(${target} ${installed})
endfunction()
add_shim(ringpress_preload libringpress-preload.so "" ${CMAKE_INSTALL_LIBDIR})
add_shim(ringpress_preload_soname libnccl.so.2 preload ${RINGPRESS_PRIVATE_FOLDER}/preload)
