# What `cmake --install` does with libraries and programs: README.md says what lies where. Included before
# all that is installed.
include(GNUInstallDirs)
# What no program should find by accident: plugins, and what is called libnccl.so.2.
set(RINGPRESS_PRIVATE_FOLDER ${CMAKE_INSTALL_LIBDIR}/ringpress)
# Where programs find the libraries, seen from where they lie themselves: the whole can be moved.
file(RELATIVE_PATH RINGPRESS_LIBRARIES_FROM_PROGRAMS ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set(RINGPRESS_INSTALL_RPATH $ORIGIN/${RINGPRESS_LIBRARIES_FROM_PROGRAMS})
set(RINGPRESS_SYMBOLS_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/symbols.cmake)

# What is installed is built first where only a part of it was, as by perf/demo.sh. Its rules come after
# this one; what they need says ringpress_install().
install(CODE "
  foreach(file IN ITEMS $<JOIN:$<TARGET_GENEX_EVAL:ringpress_include,$<TARGET_PROPERTY:ringpress_include,RINGPRESS_INSTALLED>>, >)
    if(NOT EXISTS \"\${file}\")
      message(STATUS \"Building what is to be installed\")
      execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${PROJECT_BINARY_DIR}\"
                      --target ringpress_installed COMMAND_ERROR_IS_FATAL ANY)
      break()
    endif()
  endforeach()
" ALL_COMPONENTS)
add_custom_target(ringpress_installed)

# ringpress_install_symbols(FILE FOLDER): FILE of the build tree, which has been installed to FOLDER, is
# stripped there. Its debug symbols are the component `debug`, which is installed when it is asked for.
function(ringpress_install_symbols file folder)
  if(NOT CMAKE_OBJCOPY)
    return()
  endif()
  set(arguments "\"${CMAKE_OBJCOPY}\" \"${file}\" \"${folder}\"")
  install(CODE "
    include(\"${RINGPRESS_SYMBOLS_SCRIPT}\")
    if(EXISTS \"${file}\")
      ringpress_strip(${arguments})
    endif()" COMPONENT runtime)
  install(CODE "
    include(\"${RINGPRESS_SYMBOLS_SCRIPT}\")
    if(EXISTS \"${file}\")
      ringpress_keep_symbols(${arguments})
      list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${ringpress_kept}\")
    endif()" COMPONENT debug EXCLUDE_FROM_ALL)
endfunction()

# ringpress_install(TARGET FOLDER [ARGUMENT...]): arguments are those of install(TARGETS).
function(ringpress_install target folder)
  add_dependencies(ringpress_installed ${target})
  set_property(TARGET ringpress_include APPEND PROPERTY RINGPRESS_INSTALLED
               "\"$<TARGET_FILE:${target}>\"")
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    target_link_options(${target} PRIVATE LINKER:--gc-sections)
    install(TARGETS ${target} ${ARGN} RUNTIME DESTINATION ${folder} COMPONENT runtime)
  else()
    install(TARGETS ${target} ${ARGN} LIBRARY DESTINATION ${folder} COMPONENT runtime
            NAMELINK_COMPONENT development)
  endif()
  ringpress_install_symbols($<TARGET_FILE:${target}> ${folder})
endfunction()

# ringpress_install_kernels(TARGET FILE ALL): what TARGET makes. Where it is not a part of `all`, it is
# installed if it was built.
function(ringpress_install_kernels target file all)
  if(all)
    add_dependencies(ringpress_installed ${target})
    set_property(TARGET ringpress_include APPEND PROPERTY RINGPRESS_INSTALLED "\"${file}\"")
  endif()
  install(FILES ${file} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime OPTIONAL)
  ringpress_install_symbols(${file} ${CMAKE_INSTALL_LIBDIR})
endfunction()

if(NOT CMAKE_OBJCOPY)
  message(WARNING "There is no objcopy: what is installed keeps its debug symbols, some 100 MB")
endif()
