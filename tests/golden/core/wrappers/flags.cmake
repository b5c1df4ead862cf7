# linux-arm64, for CMake: the compiler that the orchestrator uses, and how its programs run here.
#
#   cmake -S . -B build -DCMAKE_TOOLCHAIN_FILE=<this file>
#
# Written by the orchestrator for this machine, not to be edited: 0.17.0, aarch64-linux-gnu.2.28.

# Named only where it differs: naming the system makes CMake cross-compile.
if(NOT CMAKE_HOST_SYSTEM_NAME STREQUAL "Linux"
   OR NOT CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_SYSTEM_PROCESSOR aarch64)
  set(CMAKE_CROSSCOMPILING_EMULATOR [=[/opt/my qemu]=] [=[-L]=] [=[/sys$root]=])
endif()

set(CMAKE_C_COMPILER "${CMAKE_CURRENT_LIST_DIR}/cc")
set(CMAKE_CXX_COMPILER "${CMAKE_CURRENT_LIST_DIR}/cxx")
set(CMAKE_AR "${CMAKE_CURRENT_LIST_DIR}/ar" CACHE FILEPATH "The archiver" FORCE)
# The archiver writes the index itself; the machine's ranlib may know no foreign object files.
set(CMAKE_C_ARCHIVE_FINISH "")
set(CMAKE_CXX_ARCHIVE_FINISH "")
set(CMAKE_C_FLAGS_INIT [=[-mcpu=cortex-a53 '-DNAME="a b"']=])
set(CMAKE_CXX_FLAGS_INIT [=[-mcpu=cortex-a53 '-DNAME="a b"']=])
set(CMAKE_EXE_LINKER_FLAGS_INIT [=[-Wl,-z,now]=])
set(CMAKE_SHARED_LINKER_FLAGS_INIT [=[-Wl,-z,now]=])
set(CMAKE_MODULE_LINKER_FLAGS_INIT [=[-Wl,-z,now]=])
