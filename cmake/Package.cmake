# The CMake package: find_package(lockstep) gives lockstep::core (no LibTorch) and lockstep::lockstep
# (the training library). The folders that wire the programs, cli and worker, stay out.
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)

function(lockstep_package_target name)
  add_library(lockstep_${name} INTERFACE)
  set_target_properties(lockstep_${name} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(lockstep_${name} INTERFACE ${ARGN})
  add_library(lockstep::${name} ALIAS lockstep_${name})
endfunction()

set(core_targets ${LOCKSTEP_FREE_TARGETS})
list(REMOVE_ITEM core_targets lockstep_cli)
lockstep_package_target(core ${core_targets})
set(exported lockstep_core ${core_targets})
set(programs lockstep)
if(LOCKSTEP_TORCH)
  set(library_targets ${LOCKSTEP_TORCH_TARGETS})
  list(REMOVE_ITEM library_targets lockstep_worker)
  lockstep_package_target(lockstep lockstep_core ${library_targets})
  list(APPEND exported lockstep_lockstep ${library_targets})
  list(APPEND programs lockstep-worker)
  install(FILES cmake/LibTorch.cmake DESTINATION ${package_folder})
endif()

install(TARGETS ${exported} EXPORT lockstepTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${package_folder})
install(DIRECTORY lockstep/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lockstep FILES_MATCHING PATTERN "*.h"
        PATTERN cli EXCLUDE PATTERN worker EXCLUDE)
# What `make install` builds: nothing that stays here.
add_custom_target(installed DEPENDS ${core_targets} ${library_targets})
foreach(program IN LISTS programs)
  if(TARGET ${program})
    add_dependencies(installed ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

# What the shells complete by, printed by the program, and what editors check a run.toml by.
if(TARGET lockstep)
  set(shell_files)
  foreach(place bash-completion/completions/lockstep zsh/site-functions/_lockstep
                fish/vendor_completions.d/lockstep.fish)
    string(REGEX MATCH "^[a-z]+" shell ${place})
    get_filename_component(folder ${place} DIRECTORY)
    set(file ${CMAKE_BINARY_DIR}/share/${place})
    add_custom_command(OUTPUT ${file} DEPENDS lockstep VERBATIM
                       COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/share/${folder}
                       COMMAND lockstep completion ${shell} > ${file})
    list(APPEND shell_files ${file})
    install(FILES ${file} DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder})
  endforeach()
  add_custom_target(shell_completion ALL DEPENDS ${shell_files})
  add_dependencies(installed shell_completion)
endif()
install(FILES docs/run.schema.json DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep)

configure_package_config_file(cmake/lockstepConfig.cmake.in ${CMAKE_BINARY_DIR}/lockstepConfig.cmake
                              INSTALL_DESTINATION ${package_folder} PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/lockstepConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/lockstepConfig.cmake ${CMAKE_BINARY_DIR}/lockstepConfigVersion.cmake
        DESTINATION ${package_folder})
