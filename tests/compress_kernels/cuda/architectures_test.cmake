# What kernels are built for, with stand-ins for nvidia-smi. As a script, with SOURCE (the tree) and FOLDER.
include(${SOURCE}/compress_kernels/cuda/architectures.cmake)

# expect(PRINTED STATUS EXPECTED): where nvidia-smi prints that and ends so.
function(expect printed status expected)
  set(program ${FOLDER}/nvidia-smi)
  file(WRITE ${program} "#!/bin/sh\nprintf '${printed}'\nexit ${status}\n")
  file(CHMOD ${program} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  ringpress_architectures_of_gpus(${program} "75;80;86;90;100" found)
  if(NOT found STREQUAL expected)
    message(SEND_ERROR "of \"${printed}\": ${found}, expected ${expected}")
  endif()
endfunction()

expect("9.0\\n9.0\\n" 0 "90")
expect("10.0\\n8.0\\n" 0 "80;100")
expect("8.9\\n" 0 "86")
expect("12.0\\n" 0 "100")
expect("6.1\\n" 0 "")
expect("NVIDIA-SMI has failed\\n" 9 "")

ringpress_architectures_of_gpus("RINGPRESS_NVIDIA_SMI-NOTFOUND" "75;80" found)
if(NOT found STREQUAL "")
  message(SEND_ERROR "without nvidia-smi: ${found}")
endif()
