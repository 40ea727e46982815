# The kernels in src/ops/cpu are compiled once per instruction-set level; cpu.c picks one at run time.

# Compiles the files named by the variable `kernels` for a level, with the flags that follow.
function(metier_add_cpu_level target level)
    set(objects metier_cpu_${level})
    add_library(${objects} OBJECT ${kernels})
    target_include_directories(${objects} PRIVATE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(${objects} PRIVATE metier_flags OpenMP::OpenMP_C)
    metier_hide_internals(${objects})
    target_compile_definitions(${objects} PRIVATE MT_CPU_LEVEL=${level})
    # Fused multiply-add and vectorised selects are wanted here; nothing that changes what NaN or inf mean.
    target_compile_options(${objects} PRIVATE -ffp-contract=fast -fno-math-errno -fno-trapping-math ${ARGN})
    if(CMAKE_BUILD_TYPE STREQUAL "Release")
        target_compile_options(${objects} PRIVATE -O3)
    endif()
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
endfunction()

# Sets `kernels` to what a level with products of its own compiles again: its files and those that multiply weights.
function(metier_unit_kernels level)
    file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/ops/cpu/${level}/*.c)
    foreach(name unit_table gemm grouped_gemm grouped_sum cross_entropy)
        list(APPEND kernels ${CMAKE_SOURCE_DIR}/src/ops/cpu/products/${name}.c)
    endforeach()
    set(kernels ${kernels} PARENT_SCOPE)
endfunction()

function(metier_add_cpu_levels target)
    file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/ops/cpu/*.c)
    list(FILTER kernels EXCLUDE REGEX "/cpu/(amx|bf16|sve)/")
    list(REMOVE_ITEM kernels ${CMAKE_SOURCE_DIR}/src/ops/cpu/cpu.c
        ${CMAKE_SOURCE_DIR}/src/ops/cpu/products/unit_table.c)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
        metier_add_cpu_level(${target} v1 -march=x86-64)
        metier_add_cpu_level(${target} v3 -march=x86-64-v3)
        metier_add_cpu_level(${target} v4 -march=x86-64-v4 -mprefer-vector-width=512)
        # Of the level above v4 only what multiplies weights differs.
        metier_unit_kernels(amx)
        metier_add_cpu_level(${target} amx -march=x86-64-v4 -mprefer-vector-width=512 -mamx-tile -mamx-bf16
            -DMT_CPU_TILE_UNIT -DMT_CPU_LEVEL_BELOW=v4)
    elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
        # gcc, left to order instructions before it hands out registers, asks for more than the 32 there are.
        set(in_order $<$<C_COMPILER_ID:GNU>:-fno-schedule-insns>)
        metier_add_cpu_level(${target} neon -march=armv8-a ${in_order})
        metier_unit_kernels(bf16)
        metier_add_cpu_level(${target} bf16 -march=armv8.2-a+bf16 ${in_order} -DMT_CPU_TILE_UNIT
            -DMT_CPU_LEVEL_BELOW=neon)
        # Vectors of any length: the product's kernel. What calls it is neon's code.
        metier_unit_kernels(sve)
        list(APPEND kernels ${CMAKE_SOURCE_DIR}/src/ops/cpu/products/lora.c
            ${CMAKE_SOURCE_DIR}/src/ops/cpu/attention/attention.c)
        metier_add_cpu_level(${target} sve -march=armv8-a ${in_order})
        set(kernels ${CMAKE_SOURCE_DIR}/src/ops/cpu/products/gemm_block.c)
        metier_add_cpu_level(${target} sve_product -march=armv8.2-a+sve ${in_order} -DMT_CPU_ANY_LENGTH
            -UMT_CPU_LEVEL -DMT_CPU_LEVEL=sve)
    else()
        metier_add_cpu_level(${target} base)
    endif()
endfunction()
