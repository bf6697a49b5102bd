# ringpress_architectures_of_gpus(NVIDIA_SMI SUPPORTED RESULT): of each GPU of this machine, the newest of the
# SUPPORTED compute capabilities (such as 80;90, ascending) that it can run; each once. Empty where there is no
# NVIDIA_SMI, or no GPU that can run any.
function(ringpress_architectures_of_gpus nvidia_smi supported result)
  set(found)
  if(nvidia_smi)
    execute_process(COMMAND ${nvidia_smi} --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE capabilities ERROR_QUIET)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${capabilities}")
  endif()
  foreach(capability ${capabilities})
    string(REPLACE "." "" capability ${capability})
    set(newest)
    foreach(architecture ${supported})
      if(architecture LESS_EQUAL capability)
        set(newest ${architecture})
      endif()
    endforeach()
    list(APPEND found ${newest})
  endforeach()
  list(REMOVE_DUPLICATES found)
  list(SORT found COMPARE NATURAL)
  set(${result} "${found}" PARENT_SCOPE)
endfunction()
