# What libmetier.so shows is what the public headers declare (metier/export.h). That other code might stand in for a
# public function must not keep the compiler from inlining it.
function(metier_hide_internals target)
    set_target_properties(${target} PROPERTIES C_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C>:-fno-semantic-interposition>)
endfunction()
