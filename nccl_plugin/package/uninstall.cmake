# Removes what `cmake --install` has put anywhere from this build tree, as its last lists say, and folders
# that are empty then. As a script, with BUILD: the build tree.
cmake_minimum_required(VERSION 3.25)
file(GLOB lists "${BUILD}/install_manifest*.txt")
if(NOT lists)
  message(FATAL_ERROR "${BUILD} has no install_manifest.txt: nothing was installed from there")
endif()

# Folders of the system stay, empty or not.
set(kept_prefixes / /usr /usr/local)

function(remove_empty_folders folder)
  while(TRUE)
    get_filename_component(parent "${folder}" DIRECTORY)
    file(GLOB left LIST_DIRECTORIES TRUE "${folder}/*" "${folder}/.*")
    if(left OR parent IN_LIST kept_prefixes OR folder IN_LIST kept_prefixes OR
       folder STREQUAL "$ENV{DESTDIR}" OR NOT IS_DIRECTORY "${folder}")
      return()
    endif()
    file(REMOVE_RECURSE "${folder}")
    set(folder "${parent}")
  endwhile()
endfunction()

foreach(list ${lists})
  file(STRINGS "${list}" installed ENCODING UTF-8)
  foreach(file IN LISTS installed)
    set(path "$ENV{DESTDIR}${file}")
    if(EXISTS "${path}" OR IS_SYMLINK "${path}")
      message(STATUS "Removing: ${path}")
      file(REMOVE "${path}")
    endif()
    get_filename_component(folder "${path}" DIRECTORY)
    remove_empty_folders("${folder}")
  endforeach()
  file(REMOVE "${list}")
endforeach()
