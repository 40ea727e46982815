# What `cmake --install` puts where, and the Debian package that cpack makes of it. Everything is found relative to where
# it lies, so that a prefix can be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The shared library holds what its public functions reach, and needs the libraries that this needs: no pictures, no
# https. src/library/symbols.txt lists the functions; the test cli_install holds it against library and headers.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS src/library/symbols.txt include/metier/version.h)
file(STRINGS src/library/symbols.txt METIER_SYMBOLS)
list(TRANSFORM METIER_SYMBOLS PREPEND "LINKER:--undefined=")
add_library(metier_shared SHARED src/library/version.c)
add_dependencies(metier_shared metier_commit)
metier_hide_internals(metier_shared)
target_include_directories(metier_shared PRIVATE include)
target_link_libraries(metier_shared PRIVATE metier metier_flags)
target_link_options(metier_shared PRIVATE LINKER:--as-needed ${METIER_SYMBOLS})
# Before version 1 every minor version may break programs: it is part of the name.
set_target_properties(metier_shared PROPERTIES OUTPUT_NAME metier VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
    # In a wheel what it loads lies beside it (bindings/python/setup.py). As installed, not as CMake pads the paths of a
    # build: an empty one at the end would be the current folder.
    INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON)

# Manual pages and completions are what the program says of itself.
set(METIER_HELP ${CMAKE_BINARY_DIR}/help)
add_custom_command(OUTPUT ${METIER_HELP}/made COMMAND ${CMAKE_COMMAND} -D METIER=$<TARGET_FILE:metier_program>
    -D OUT=${METIER_HELP} -P ${CMAKE_SOURCE_DIR}/cmake/help_files.cmake
    DEPENDS metier_program cmake/help_files.cmake COMMENT "manual pages and completions")
if(NOT CMAKE_CROSSCOMPILING AND NOT METIER_SANITIZE AND NOT METIER_SANITIZE_THREADS) # where the program is quick
    add_custom_target(metier_help ALL DEPENDS ${METIER_HELP}/made)
    install(DIRECTORY ${METIER_HELP}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
    install(DIRECTORY ${METIER_HELP}/share/ DESTINATION ${CMAKE_INSTALL_DATAROOTDIR})
endif()

# What a program that links libmetier.a needs besides. Not Requires.private: pkg-config wants those packages to be there
# even for the shared library, which needs none of them at compile time.
set(private -lgmp -ljansson -lpcre2-8 -lutf8proc -lxxhash -lyaml -lz -lzstd -llz4 ${OpenMP_C_FLAGS} -lm)
if(CMAKE_DL_LIBS)
    list(APPEND private -l${CMAKE_DL_LIBS})
endif()
if(METIER_PICTURES)
    list(APPEND private -lcairo)
endif()
if(CURL_FOUND)
    list(APPEND private -lcurl)
endif()
string(REPLACE ";" " " METIER_PRIVATE_LIBRARIES "${private}")
# From lib/pkgconfig up to the prefix.
file(RELATIVE_PATH METIER_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" METIER_UP "${METIER_UP}")
configure_file(cmake/metier.pc.in ${CMAKE_BINARY_DIR}/generated/metier.pc @ONLY)
configure_package_config_file(cmake/metierConfig.cmake.in ${CMAKE_BINARY_DIR}/generated/metierConfig.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/metier PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/metierConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS metier_program metier metier_shared)
install(DIRECTORY include/metier DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY share/ DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/metier)
install(FILES ${CMAKE_BINARY_DIR}/generated/metier.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_BINARY_DIR}/generated/metierConfig.cmake ${CMAKE_BINARY_DIR}/generated/metierConfigVersion.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/metier)
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN pictures EXCLUDE)
foreach(module metier_mpi metier_cuda)
    if(TARGET ${module})
        install(TARGETS ${module} LIBRARY DESTINATION lib/metier) # where they are looked for: src/comm/launch.c, src/ops/module.c
    endif()
endforeach()

set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON) # cpack would build the tests
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME metier)
set(CPACK_PACKAGE_CONTACT "metier developers <metier@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "post-trains Mixture-of-Experts language models so that their experts specialise")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS OFF)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS libjs-chart.js) # besides the libraries: pages have fixed pictures without it
# The sandbox and what runs in it; the launcher of many ranks.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "bubblewrap, python3, openmpi-bin")
include(CPack)
