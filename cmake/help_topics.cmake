# SPDX-License-Identifier: Apache-2.0
# Compiles sections of docs/ into the program as the topics of 'ventris help': a name, the file and the heading. A section ends at the next
# heading of its rank.
set(VENTRIS_HELP_TOPICS
    "data|guide.md|## Corpora"
    "mixing|guide.md|### Corpora mixed by a plan"
    "tokenizers|guide.md|### Tokenizers"
    "subwords|guide.md|### Other subwords in each epoch"
    "training|guide.md|## Training"
    "fine-tuning|guide.md|### From a model, or from vectors"
    "schedules|guide.md|### Other learning rates"
    "other-programs|guide.md|### Names in other programs"
    "planning|guide.md|### Before a long run"
    "curves|guide.md|### Curves, and comparing runs"
    "watching|guide.md|## Watch a run"
    "resuming|guide.md|## Stop and resume"
    "ranks|guide.md|## Several ranks and hosts"
    "scaling|scaling.md|## Advice"
    "slurm|guide.md|## Slurm"
    "translating|guide.md|## Translation and evaluation"
    "exporting|guide.md|## Export"
    "exit-codes|exit-codes.md|# Exit codes"
    "troubleshooting|guide.md|## Troubleshooting")

function(ventris_help_topics output)
  set(text "#include \"launch/options/help_topics.h\"\n\nnamespace ventris {\n\nconst std::vector<HelpTopic>& help_topics() {\n")
  string(APPEND text "  static const std::vector<HelpTopic> topics = {\n")
  foreach(topic IN LISTS VENTRIS_HELP_TOPICS)
    string(REPLACE "|" ";" parts "${topic}")
    list(GET parts 0 name)
    list(GET parts 1 file)
    list(GET parts 2 heading)
    set(path ${PROJECT_SOURCE_DIR}/docs/${file})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    file(READ ${path} page)
    string(PREPEND page "\n")
    string(FIND "${page}" "\n${heading}\n" begin)
    if(begin EQUAL -1)
      message(FATAL_ERROR "docs/${file} has no heading '${heading}', which cmake/help_topics.cmake names")
    endif()
    string(LENGTH "\n${heading}\n" length)
    math(EXPR begin "${begin} + ${length}")
    string(SUBSTRING "${page}" ${begin} -1 section)
    set(ends "\n## ")
    if(heading MATCHES "^###")
      list(APPEND ends "\n### ")
    endif()
    foreach(end IN LISTS ends)
      string(FIND "${section}" "${end}" at)
      string(SUBSTRING "${section}" 0 ${at} section)
    endforeach()
    string(STRIP "${section}" section)
    string(REGEX REPLACE "^#+ " "" title "${heading}")
    string(APPEND text "      {\"${name}\", \"${title}\", R\"topic(${section})topic\"},\n")
  endforeach()
  string(APPEND text "  };\n  return topics;\n}\n\n}  // namespace ventris\n")
  file(CONFIGURE OUTPUT ${output} CONTENT "@text@" @ONLY)
endfunction()
