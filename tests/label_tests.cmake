# ctest reads this after the list of a program's tests; ringpress_label() in CMakeLists.txt says how.
#   program            the program
#   labels             the labels
#   LABEL_patterns     of each: the tests' names, * being any text
#   every_name_counts  whether a pattern that names no test is an error

# `named`: whether one of the patterns names the test.
function(ringpress_names_test test patterns named)
  set(${named} OFF PARENT_SCOPE)
  foreach(pattern IN LISTS patterns)
    string(REPLACE "." "\\." regex "${pattern}")
    string(REPLACE "*" ".*" regex "${regex}")
    if(test MATCHES "^${regex}$")
      set(${named} ON PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

foreach(test IN LISTS ${program}_TESTS)
  set(of_test)
  foreach(label IN LISTS labels)
    ringpress_names_test("${test}" "${${label}_patterns}" named)
    if(named)
      list(APPEND of_test ${label})
    endif()
  endforeach()
  if(of_test)
    set_tests_properties("${test}" PROPERTIES LABELS "${of_test}")
  endif()
endforeach()

# A test that fails says so.
if(every_name_counts AND DEFINED ${program}_TESTS)
  foreach(label IN LISTS labels)
    foreach(pattern IN LISTS ${label}_patterns)
      set(used OFF)
      foreach(test IN LISTS ${program}_TESTS)
        ringpress_names_test("${test}" "${pattern}" named)
        if(named)
          set(used ON)
          break()
        endif()
      endforeach()
      if(NOT used)
        add_test("layout.${program}_has_no_test_named_${pattern}" ringpress_no_such_test)
      endif()
    endforeach()
  endforeach()
endif()
