# cmake -D METIER=PROGRAM -D OUT=FOLDER -P help_files.cmake: OUT/man1 and OUT/share, as they are installed.
function(ask file)
    execute_process(COMMAND ${METIER} help ${ARGN} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
    file(WRITE ${OUT}/${file} "${text}")
endfunction()

file(REMOVE_RECURSE ${OUT})
execute_process(COMMAND ${METIER} --help OUTPUT_VARIABLE usage COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\n  [a-z]+ " verbs "${usage}")
ask(man1/metier.1 --man)
foreach(verb ${verbs})
    string(STRIP "${verb}" verb)
    ask(man1/metier-${verb}.1 ${verb} --man)
endforeach()
ask(share/bash-completion/completions/metier --complete bash)
foreach(folder site-functions vendor-completions) # zsh looks into the first below /usr/local, into the second below /usr
    ask(share/zsh/${folder}/_metier --complete zsh)
endforeach()
ask(share/fish/vendor_completions.d/metier.fish --complete fish)
foreach(verb train compare eval recipe) # schemas of the files they read, for editors
    execute_process(COMMAND ${METIER} ${verb} --schema OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
    file(WRITE ${OUT}/share/metier/schema/${verb}.json "${text}")
endforeach()
file(WRITE ${OUT}/made "")
