# Which commit is built: a file that is looked at by every build, and written only when it changed. Run as a script it
# writes FILE. A source archive has the commit in this file (.gitattributes); "" where neither git nor the archive knows it.
if(CMAKE_SCRIPT_MODE_FILE)
    execute_process(COMMAND git -C ${SOURCE} describe --always --dirty=+ --abbrev=12 --exclude=*
        OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed EQUAL 0 OR NOT EXISTS ${SOURCE}/.git)
        set(commit "$Format:%H$")
        string(REGEX MATCH "^[0-9a-f]+$" commit "${commit}")
        string(SUBSTRING "${commit}" 0 12 commit)
    endif()
    set(text "#define METIER_COMMIT \"${commit}\"\n")
    if(EXISTS ${FILE})
        file(READ ${FILE} old)
    endif()
    if(NOT "${old}" STREQUAL "${text}")
        file(WRITE ${FILE} "${text}")
    endif()
    return()
endif()

set(METIER_COMMIT_FILE ${CMAKE_BINARY_DIR}/generated/commit.h)
add_custom_target(metier_commit BYPRODUCTS ${METIER_COMMIT_FILE} COMMAND ${CMAKE_COMMAND} -D SOURCE=${CMAKE_SOURCE_DIR}
    -D FILE=${METIER_COMMIT_FILE} -P ${CMAKE_SOURCE_DIR}/cmake/commit.cmake COMMENT "")
add_dependencies(metier metier_commit)
set_source_files_properties(src/library/version.c PROPERTIES COMPILE_OPTIONS "-I${CMAKE_BINARY_DIR}/generated")
