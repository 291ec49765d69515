# Warnings for the project's own targets, as one interface target.
add_library(sam3_warnings INTERFACE)
target_compile_options(sam3_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                       -Wold-style-cast -Wcast-align -Wdouble-promotion -Wformat=2)
if(SAM3_WERROR)
  target_compile_options(sam3_warnings INTERFACE -Werror)
endif()
if(SAM3_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()
