# Strips what was installed, and puts its debug symbols beside it (install.cmake). Scripts that install
# include this.

# The folder of this run, as an absolute path.
function(ringpress_installed_folder folder result)
  if(NOT IS_ABSOLUTE "${folder}")
    set(folder "${CMAKE_INSTALL_PREFIX}/${folder}")
  endif()
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()

# Without its code, FILE is written to SYMBOLS. The same FILE gives the same bytes, so that what is
# stripped knows the symbols that are installed later.
function(ringpress_write_symbols objcopy file symbols)
  execute_process(COMMAND "${objcopy}" --only-keep-debug "${file}" "${symbols}"
                  COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# ringpress_strip(OBJCOPY FILE FOLDER)
function(ringpress_strip objcopy file folder)
  ringpress_installed_folder("${folder}" folder)
  get_filename_component(name "${file}" NAME)
  # Where nobody else writes: two may install from one build tree.
  string(RANDOM LENGTH 16 unique)
  set(work "$ENV{DESTDIR}${folder}/.${unique}")
  set(symbols "${work}/${name}.debug")
  file(MAKE_DIRECTORY "${work}")
  ringpress_write_symbols("${objcopy}" "${file}" "${symbols}")
  execute_process(COMMAND "${objcopy}" --strip-unneeded "--add-gnu-debuglink=${symbols}"
                          "$ENV{DESTDIR}${folder}/${name}"
                  RESULT_VARIABLE status)
  file(REMOVE_RECURSE "${work}")
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${objcopy} could not strip ${folder}/${name}")
  endif()
endfunction()

# ringpress_keep_symbols(OBJCOPY FILE FOLDER): to .debug/, where debuggers look beside each file. Sets
# ringpress_kept, the path without DESTDIR.
function(ringpress_keep_symbols objcopy file folder)
  ringpress_installed_folder("${folder}" folder)
  get_filename_component(name "${file}" NAME)
  set(kept "${folder}/.debug/${name}.debug")
  message(STATUS "Installing: $ENV{DESTDIR}${kept}")
  file(MAKE_DIRECTORY "$ENV{DESTDIR}${folder}/.debug")
  ringpress_write_symbols("${objcopy}" "${file}" "$ENV{DESTDIR}${kept}")
  set(ringpress_kept "${kept}" PARENT_SCOPE)
endfunction()
