# How long tests may take, and where the sanitizers look for leaks.

# What the end of a process costs under LeakSanitizer, in hundredths of a second of processor time: the least of three
# runs of an empty program. Next to nothing mostly, seconds with some toolchains. Measured once for a build folder.
function(metier_measure_leak_check)
    if(DEFINED METIER_LEAK_CHECK)
        return()
    endif()
    set(program ${CMAKE_BINARY_DIR}/leak_check/empty)
    set(least 0)
    file(WRITE ${program}.c "int main(void) { return 0; }\n")
    execute_process(COMMAND ${CMAKE_C_COMPILER} -fsanitize=address ${program}.c -o ${program})
    foreach(try 1 2 3)
        # The second line of `times` is of the children: "0m0.01s 0m0.02s", user and system.
        execute_process(COMMAND sh -c "'${program}'; times" OUTPUT_VARIABLE times)
        if(times MATCHES "\n([0-9]+)m([0-9]+)\\.([0-9][0-9])[0-9]*s ([0-9]+)m([0-9]+)\\.([0-9][0-9])")
            math(EXPR minutes "${CMAKE_MATCH_1} + ${CMAKE_MATCH_4}")
            math(EXPR seconds "${CMAKE_MATCH_2} + ${CMAKE_MATCH_5}")
            math(EXPR taken "${minutes} * 6000 + ${seconds} * 100 + 1${CMAKE_MATCH_3} + 1${CMAKE_MATCH_6} - 200")
            if(try EQUAL 1 OR taken LESS least)
                set(least ${taken})
            endif()
        endif()
    endforeach()
    set(METIER_LEAK_CHECK ${least} CACHE INTERNAL "hundredths of a second that a leak check takes")
endfunction()

# To be called after the last test of a folder. Where METIER_TEST_PATIENCE is set in the environment, every test may
# take that many times as long: for machines that are slow or emulated. Where a leak check is dear, tests that start
# the program again and again go without; the other unit tests keep theirs.
function(metier_limit_tests)
    set(patience 1)
    if("$ENV{METIER_TEST_PATIENCE}" MATCHES "^[1-9][0-9]*$")
        set(patience $ENV{METIER_TEST_PATIENCE})
    endif()
    if(METIER_SANITIZE)
        metier_measure_leak_check()
    endif()
    get_property(names DIRECTORY PROPERTY TESTS)
    foreach(name ${names})
        get_test_property(${name} TIMEOUT seconds)
        if(NOT seconds)
            set(seconds 1800) # what hangs is to end; what is slow, on a busy machine, is not
        endif()
        math(EXPR seconds "${seconds} * ${patience}")
        set_tests_properties(${name} PROPERTIES TIMEOUT ${seconds})
        if(METIER_SANITIZE AND METIER_LEAK_CHECK GREATER 50 AND
                NOT (name MATCHES "^(test|fuzz|ops)_" AND NOT name MATCHES "^test_(cli_objective|init|inspect|tokenize)$"))
            set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
            list(APPEND unchecked ${name})
        endif()
    endforeach()
    if(unchecked)
        message(STATUS "a leak check takes ${METIER_LEAK_CHECK}/100 s here: none in ${unchecked}")
    endif()
endfunction()
