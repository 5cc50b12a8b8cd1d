# What `cmake --install` puts beside the library: headers, the CMake package, the pkg-config file.
include(CMakePackageConfigHelpers)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/ebb DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*-inl.hpp" EXCLUDE)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ebb)
configure_package_config_file(cmake/ebb-config.cmake.in ${PROJECT_BINARY_DIR}/ebb-config.cmake
                              INSTALL_DESTINATION ${package_dir})
# Before 1.0 every minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ebb-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ebb-config.cmake ${PROJECT_BINARY_DIR}/ebb-config-version.cmake
        DESTINATION ${package_dir})

# The .pc file finds its prefix from where it lies, so an installed tree may be moved.
file(RELATIVE_PATH EBB_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" EBB_PC_PREFIX "${EBB_PC_PREFIX}")
configure_file(cmake/ebb.pc.in ${PROJECT_BINARY_DIR}/ebb.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ebb.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
