# SPDX-License-Identifier: Apache-2.0
# cmake -DPROGRAM=ventris -DOUTPUT=DIR -P write_manual.cmake: what is installed under share/, as the program prints it.
function(write file)
  execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  file(WRITE ${OUTPUT}/${file} "${text}")
endfunction()

file(REMOVE_RECURSE ${OUTPUT})
write(bash-completion/completions/ventris help --completion bash)
write(zsh/site-functions/_ventris help --completion zsh)
write(fish/vendor_completions.d/ventris.fish help --completion fish)
write(man/man1/ventris.1 help --man)
execute_process(COMMAND ${PROGRAM} help --commands OUTPUT_VARIABLE commands COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[a-z-]+" commands "${commands}")
foreach(command IN LISTS commands)
  write(man/man1/ventris-${command}.1 help --man ${command})
endforeach()
file(WRITE ${OUTPUT}/done "")
