# The C++ API of toy_libtorch. Prefab's own targets can carry neither definitions nor an archive that is
# linked whole, and the C++ API needs both:
#
#   find_package(toy_libtorch REQUIRED CONFIG)
#   get_target_property(include toy_libtorch::toy_torch_core INTERFACE_INCLUDE_DIRECTORIES)
#   include(${include}/toy_libtorch-static.cmake)
#   target_link_libraries(<your library> PRIVATE toy_libtorch::static)
if(NOT TARGET toy_libtorch::static)
  set(_lta_definitions_arm64-v8a "TOY_LEVEL=2;TOY_MOBILE")
  set(_lta_definitions_armeabi-v7a "TOY_LEVEL=2;TOY_MOBILE")
  set(_lta_definitions_x86_64 "TOY_LEVEL=2;TOY_MOBILE")
  get_target_property(_lta_registrations toy_libtorch::toy_torch_registrations IMPORTED_LOCATION)
  # Nothing names the registrations: static initialisers run them, so they are linked whole.
  add_library(toy_libtorch::static INTERFACE IMPORTED)
  set_target_properties(toy_libtorch::static PROPERTIES
    INTERFACE_COMPILE_FEATURES cxx_std_17
    INTERFACE_COMPILE_DEFINITIONS "${_lta_definitions_${ANDROID_ABI}}"
    INTERFACE_LINK_OPTIONS
      "SHELL:-Wl,--whole-archive \"${_lta_registrations}\" -Wl,--no-whole-archive;-Wl,--gc-sections"
    INTERFACE_LINK_DEPENDS "${_lta_registrations}"
    INTERFACE_LINK_LIBRARIES "toy_libtorch::toy_torch_core;${CMAKE_DL_LIBS}")
  unset(_lta_registrations)
endif()
