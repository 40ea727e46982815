# What a release build does against files that were made to break it, beside refusing them: canaries on the stack,
# checked copies (glibc's FORTIFY), code anywhere in memory (CMakeLists.txt), and tables of addresses that are read-only before main.
# Of folders, not of a target: what a target asks for itself comes later and wins (cpu_levels.cmake).
set(release $<CONFIG:Release>)
set(in_c $<AND:${release},$<COMPILE_LANGUAGE:C>>)
add_compile_options("$<${in_c}:-fstack-protector-strong;-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
add_link_options("$<${release}:-Wl,-z,relro,-z,now>"
    "$<$<AND:${release},$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>>:-pie>")
