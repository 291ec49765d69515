# `cmake --install`: headers, library, program, the CMake package and the pkg-config file.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/sam3)
file(GLOB public_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/*.h)
install(FILES ${public_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
install(TARGETS sam3_library EXPORT sam3Targets COMPONENT library
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS sam3_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
# The program writes its manual and completions itself, where it can run.
if(NOT CMAKE_CROSSCOMPILING)
  set(pages ${PROJECT_BINARY_DIR}/pages)
  install(CODE "
    file(MAKE_DIRECTORY \"${pages}\")
    execute_process(COMMAND \"$<TARGET_FILE:sam3_cli>\" help --man OUTPUT_FILE \"${pages}/sam3.1\" COMMAND_ERROR_IS_FATAL ANY)
    foreach(shell bash zsh fish)
      execute_process(COMMAND \"$<TARGET_FILE:sam3_cli>\" completion \${shell} OUTPUT_FILE \"${pages}/sam3.\${shell}\" COMMAND_ERROR_IS_FATAL ANY)
    endforeach()" COMPONENT program)
  install(FILES ${pages}/sam3.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
  install(FILES ${pages}/sam3.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME sam3 COMPONENT program)
  install(FILES ${pages}/sam3.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _sam3 COMPONENT program)
  install(FILES ${pages}/sam3.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)
endif()
install(EXPORT sam3Targets NAMESPACE sam3:: DESTINATION ${package_folder} COMPONENT library)

# A shared library carries its own dependencies; the user of a static one has to find them.
# In pkg-config's file they are not private: `--static` would ask for the static libraries behind FFmpeg's as well.
if(BUILD_SHARED_LIBS)
  set(SAM3_FIND_DEPENDENCIES)
  set(SAM3_PC_REQUIRES)
  set(SAM3_PC_LIBS)
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/sam3Config.cmake.in ${PROJECT_BINARY_DIR}/sam3Config.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sam3ConfigVersion.cmake COMPATIBILITY SameMinorVersion)
# Relative to the file itself, so that an installed tree may be moved.
file(RELATIVE_PATH SAM3_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${PROJECT_SOURCE_DIR}/cmake/sam3.pc.in ${PROJECT_BINARY_DIR}/sam3.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sam3Config.cmake ${PROJECT_BINARY_DIR}/sam3ConfigVersion.cmake
        DESTINATION ${package_folder} COMPONENT library)
install(FILES ${PROJECT_BINARY_DIR}/sam3.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
