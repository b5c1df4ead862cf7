# camera_libtorch: PyTorch 1.13.1, cut for the app camera (linux-arm64).
#
#   find_package(camera_libtorch REQUIRED COMPONENTS shared)     # the C API, any compiler
#   find_package(camera_libtorch REQUIRED COMPONENTS static)     # the C and the C++ API, libc++
#
# gives camera_libtorch::shared and camera_libtorch::static. Link one of them. Every path is relative to this file.
cmake_minimum_required(VERSION 3.19...4.0)

get_filename_component(_lta_lib "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_lta_include "${_lta_lib}/../../include/camera-libtorch" ABSOLUTE)

set(camera_libtorch_VERSION "1.2.0")
set(camera_libtorch_ABI "linux-arm64")

if(NOT TARGET camera_libtorch::shared)
  add_library(camera_libtorch::shared SHARED IMPORTED)
  set_target_properties(camera_libtorch::shared PROPERTIES
    IMPORTED_LOCATION "${_lta_lib}/libcamera_torch.so"
    IMPORTED_SONAME "libcamera_torch.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_lta_include}")
endif()
set(camera_libtorch_shared_FOUND TRUE)

# The archives hold C++ of one standard library; an app of another one cannot link them.
set(camera_libtorch_static_FOUND FALSE)
get_property(_lta_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if(NOT "CXX" IN_LIST _lta_languages)
  set(_lta_problem "the static libraries are C++: add CXX to the project's languages")
else()
  if(NOT DEFINED camera_libtorch_CXX_LIBRARY_FITS)
    file(WRITE "${CMAKE_BINARY_DIR}/CMakeFiles/camera_libtorch-cxx-library.cpp" [=[
#include <cstddef>
#ifndef _LIBCPP_VERSION
#error "another C++ standard library"
#endif
int main() { return 0; }
]=])
    try_compile(_lta_fits "${CMAKE_BINARY_DIR}/CMakeFiles/camera_libtorch-cxx-library"
      SOURCES "${CMAKE_BINARY_DIR}/CMakeFiles/camera_libtorch-cxx-library.cpp")
    set(camera_libtorch_CXX_LIBRARY_FITS ${_lta_fits} CACHE INTERNAL
      "Whether the C++ compiler uses libc++, as camera_libtorch was built with")
  endif()
  if(camera_libtorch_CXX_LIBRARY_FITS)
    set(camera_libtorch_static_FOUND TRUE)
  else()
    string(CONCAT _lta_problem
      "the static libraries were built with libc++, and ${CMAKE_CXX_COMPILER} uses another "
      "C++ standard library. Either link camera_libtorch::shared, whose C API suits every compiler, "
      "or configure with "
      "-DCMAKE_TOOLCHAIN_FILE=${CMAKE_CURRENT_LIST_DIR}/toolchain.cmake")
  endif()
endif()

if(camera_libtorch_static_FOUND AND NOT TARGET camera_libtorch::static)
  include(CMakeFindDependencyMacro)
  find_dependency(Threads)

  add_library(camera_libtorch::core STATIC IMPORTED)
  set_target_properties(camera_libtorch::core PROPERTIES
    IMPORTED_LOCATION "${_lta_lib}/libcamera_torch_core.a"
    IMPORTED_LINK_INTERFACE_LANGUAGES CXX)

  # Nothing names the registrations: static initialisers run them, so they are linked whole.
  # The core is linked by need, and what no code reaches is dropped. CMake's own
  # $<LINK_LIBRARY:WHOLE_ARCHIVE> says --push-state, which zig's linker refuses.
  add_library(camera_libtorch::static INTERFACE IMPORTED)
  set(_lta_registrations "${_lta_lib}/libcamera_torch_registrations.a")
  set_target_properties(camera_libtorch::static PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_lta_include}"
    INTERFACE_COMPILE_FEATURES cxx_std_17
    INTERFACE_COMPILE_DEFINITIONS "AT_LEVEL=2;C10_MOBILE"
    INTERFACE_LINK_OPTIONS
      "SHELL:-Wl,--whole-archive \"${_lta_registrations}\" -Wl,--no-whole-archive;-Wl,--gc-sections"
    INTERFACE_LINK_DEPENDS "${_lta_registrations}"
    INTERFACE_LINK_LIBRARIES "camera_libtorch::core;Threads::Threads;${CMAKE_DL_LIBS}")
  unset(_lta_registrations)
endif()

foreach(_lta_component IN LISTS camera_libtorch_FIND_COMPONENTS)
  if(NOT _lta_component STREQUAL "shared" AND NOT _lta_component STREQUAL "static")
    set(_lta_problem "it has the components shared and static, not ${_lta_component}")
  endif()
  if(NOT camera_libtorch_${_lta_component}_FOUND AND camera_libtorch_FIND_REQUIRED_${_lta_component})
    set(camera_libtorch_FOUND FALSE)
    set(camera_libtorch_NOT_FOUND_MESSAGE "${_lta_problem}")
  endif()
endforeach()
if(NOT camera_libtorch_FIND_COMPONENTS AND NOT camera_libtorch_static_FOUND AND NOT camera_libtorch_FIND_QUIETLY)
  message(STATUS "camera_libtorch: no target camera_libtorch::static: ${_lta_problem}")
endif()

unset(_lta_lib)
unset(_lta_include)
unset(_lta_languages)
unset(_lta_fits)
unset(_lta_problem)
unset(_lta_component)
