# Mends the source archive of ik-llama-cpp-python 0.1.5; CMake includes this when it reads the project.

# Its libraries lie side by side, but do not look for each other there.
if(APPLE)
    set(CMAKE_INSTALL_RPATH "@loader_path")
else()
    set(CMAKE_INSTALL_RPATH "$ORIGIN")
endif()

# The script is missing with which the build writes down what it was built of; this one names nothing, as nobody asks.
file(WRITE "${CMAKE_SOURCE_DIR}/vendor/ik_llama.cpp/common/cmake/build-info-gen-cpp.cmake" [[
foreach(name NUMBER COMMIT COMPILER TARGET)
    set(BUILD_${name} 0)
endforeach()
configure_file(common/build-info.cpp.in common/build-info.cpp)
]])
