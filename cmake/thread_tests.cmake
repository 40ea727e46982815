# Tests under the thread sanitizer: only those that run threads are built (target `thread_tests`) and run (label
# `threads`). What libomp does between its threads is invisible to the sanitizer: Archer, a tool of libomp, tells it.
# Reports go to files, whatever becomes of the process that writes one and of its output; the last test fails when there
# is one. Libraries that are not compiled with the sanitizer are left out by name, in races.supp. Its option
# ignore_noninstrumented_modules, which Archer asks for on standard error, would do so for every call of ours into libc as
# well: a path that two threads write with snprintf went unseen.

get_filename_component(folder "${OpenMP_omp_LIBRARY}" REALPATH)
get_filename_component(folder "${folder}" DIRECTORY)
find_library(METIER_ARCHER archer HINTS ${folder} REQUIRED)
set(METIER_RACES ${CMAKE_BINARY_DIR}/races)
add_custom_target(thread_tests DEPENDS metier_program)
add_test(NAME races_forget COMMAND ${CMAKE_SOURCE_DIR}/tests/support/race-reports forget ${METIER_RACES})
add_test(NAME races_none COMMAND ${CMAKE_SOURCE_DIR}/tests/support/race-reports none ${METIER_RACES})
set_tests_properties(races_forget PROPERTIES FIXTURES_SETUP races)
set_tests_properties(races_none PROPERTIES FIXTURES_CLEANUP races)

# metier_thread_tests(name...): tests of this folder; programs of other names are the caller's to add to the target.
function(metier_thread_tests)
    foreach(name ${ARGN})
        set_tests_properties(${name} PROPERTIES LABELS threads FIXTURES_REQUIRED races)
        set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT OMP_TOOL_LIBRARIES=${METIER_ARCHER}
            TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/races.supp:print_suppressions=0:log_path=${METIER_RACES}/${name})
        if(TARGET ${name})
            add_dependencies(thread_tests ${name})
        endif()
    endforeach()
endfunction()
