# A number for the headers of what passes between libringpress-cuda.so, which is built apart, and the
# rest: it tells one that was built with others (module.h). Any change counts, to be on the safe side.
#
# As a script, with OUTPUT and HEADERS: writes it.
if(CMAKE_SCRIPT_MODE_FILE)
  set(text)
  foreach(header ${HEADERS})
    file(READ ${header} content)
    string(APPEND text "${content}")
  endforeach()
  string(SHA256 hash "${text}")
  string(SUBSTRING ${hash} 0 16 number)
  file(WRITE ${OUTPUT} "#define RINGPRESS_MODULE_LAYOUT 0x${number}U\n")
  return()
endif()

set(parts agreement codec cost_model device error_tables projection status types)
list(TRANSFORM parts PREPEND ${PROJECT_SOURCE_DIR}/include/ringpress/internal/)
list(TRANSFORM parts APPEND .h)
file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.h ${CMAKE_CURRENT_SOURCE_DIR}/*/*.h
     ${CMAKE_CURRENT_SOURCE_DIR}/*.inc)
list(FILTER headers EXCLUDE REGEX "-inl\\.h$")
list(APPEND headers ${parts})
set(RINGPRESS_MODULE_LAYOUT_FOLDER ${PROJECT_BINARY_DIR}/generated)
set(RINGPRESS_MODULE_LAYOUT_HEADER ${RINGPRESS_MODULE_LAYOUT_FOLDER}/ringpress_module_layout.h)
add_custom_command(
  OUTPUT ${RINGPRESS_MODULE_LAYOUT_HEADER}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${RINGPRESS_MODULE_LAYOUT_HEADER} "-DHEADERS=${headers}"
          -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${headers} ${CMAKE_CURRENT_LIST_FILE} COMMENT "Numbering the headers of kernels" VERBATIM)
add_custom_target(ringpress_number_headers DEPENDS ${RINGPRESS_MODULE_LAYOUT_HEADER})

# For what includes module.h.
add_library(ringpress_module_layout INTERFACE)
add_dependencies(ringpress_module_layout ringpress_number_headers)
target_include_directories(ringpress_module_layout INTERFACE ${RINGPRESS_MODULE_LAYOUT_FOLDER})
add_dependencies(ringpress_codecs ringpress_number_headers)
set_source_files_properties(cuda/module.cc PROPERTIES
  INCLUDE_DIRECTORIES ${RINGPRESS_MODULE_LAYOUT_FOLDER})
