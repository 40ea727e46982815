# By which rules answers are judged: a checksum of all that judges them, looked at by every build, and written only when it
# changed. Run as a script it writes FILE.
if(CMAKE_SCRIPT_MODE_FILE)
    file(GLOB_RECURSE files ${SOURCE}/src/eval/text.c ${SOURCE}/src/eval/answers/*.c ${SOURCE}/src/eval/code/*
        ${SOURCE}/src/eval/livebench/*.c ${SOURCE}/src/eval/math/*.c ${SOURCE}/share/answers/*)
    list(SORT files)
    set(sums "")
    foreach(path ${files})
        file(SHA256 ${path} sum)
        string(APPEND sums "${sum}\n")
    endforeach()
    string(SHA256 sum "${sums}")
    string(SUBSTRING ${sum} 0 12 rules)
    set(text "#define METIER_JUDGING \"${rules}\"\n")
    if(EXISTS ${FILE})
        file(READ ${FILE} old)
    endif()
    if(NOT "${old}" STREQUAL "${text}")
        file(WRITE ${FILE} "${text}")
    endif()
    return()
endif()

set(METIER_JUDGING_FILE ${CMAKE_BINARY_DIR}/generated/judging.h)
add_custom_target(metier_judging BYPRODUCTS ${METIER_JUDGING_FILE} COMMAND ${CMAKE_COMMAND} -D SOURCE=${CMAKE_SOURCE_DIR}
    -D FILE=${METIER_JUDGING_FILE} -P ${CMAKE_SOURCE_DIR}/cmake/judging.cmake COMMENT "")
add_dependencies(metier metier_judging)
set_source_files_properties(src/eval/run/judged_by.c PROPERTIES COMPILE_OPTIONS "-I${CMAKE_BINARY_DIR}/generated")
