# The compiler that camera_libtorch's static libraries were built with: zig 0.17.0, aarch64-linux-gnu.2.28.
#
#   cmake -S . -B build -DCMAKE_TOOLCHAIN_FILE=<this file>
#
# It is found as LIBTORCH_ZIG (a CMake or environment variable), in the Python package
# (pip install ziglang==0.17.0), or as `zig` on PATH.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES LIBTORCH_ZIG)
if(NOT LIBTORCH_ZIG AND DEFINED ENV{LIBTORCH_ZIG})
  set(LIBTORCH_ZIG "$ENV{LIBTORCH_ZIG}" CACHE FILEPATH "The zig that compiles and links")
endif()
if(NOT LIBTORCH_ZIG)
  find_program(_lta_python NAMES python3 python NO_CACHE)
  if(_lta_python)
    execute_process(
      COMMAND "${_lta_python}" -c "import os, ziglang; print(os.path.dirname(ziglang.__file__))"
      OUTPUT_VARIABLE _lta_folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  find_program(LIBTORCH_ZIG NAMES zig HINTS "${_lta_folder}" DOC "The zig that compiles and links")
endif()
if(NOT LIBTORCH_ZIG)
  message(FATAL_ERROR
    "zig was not found: pip install ziglang==0.17.0, or set LIBTORCH_ZIG to its path")
endif()

# Named only where it differs: naming the system makes CMake cross-compile.
if(NOT CMAKE_HOST_SYSTEM_NAME STREQUAL "Linux"
   OR NOT CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_SYSTEM_PROCESSOR aarch64)
endif()
set(CMAKE_C_COMPILER "${LIBTORCH_ZIG}" cc -target aarch64-linux-gnu.2.28)
set(CMAKE_CXX_COMPILER "${LIBTORCH_ZIG}" c++ -target aarch64-linux-gnu.2.28)
# zig turns the undefined-behaviour sanitizer on without -O, which PyTorch's headers do not pass, and
# writes debug information unless told otherwise (CMake's Debug tells it: -g comes later).
set(CMAKE_C_FLAGS_INIT "-fno-sanitize=all -g0")
set(CMAKE_CXX_FLAGS_INIT "-fno-sanitize=all -g0")

# CMake wants one path for each of these, and the machine's own know no foreign object files.
foreach(_lta_tool IN ITEMS ar ranlib)
  set(_lta_script "${CMAKE_BINARY_DIR}/CMakeFiles/zig-${_lta_tool}")
  file(WRITE "${_lta_script}" "#!/bin/sh\nexec '${LIBTORCH_ZIG}' ${_lta_tool} \"$@\"\n")
  file(CHMOD "${_lta_script}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  string(TOUPPER "CMAKE_${_lta_tool}" _lta_variable)
  set(${_lta_variable} "${_lta_script}" CACHE FILEPATH "zig's ${_lta_tool}" FORCE)
endforeach()
unset(_lta_python)
unset(_lta_folder)
unset(_lta_tool)
unset(_lta_script)
unset(_lta_variable)
