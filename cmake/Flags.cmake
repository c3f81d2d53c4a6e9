# SPDX-License-Identifier: Apache-2.0
# The flags of every target, as interface libraries.

add_library(bh_warnings INTERFACE)
target_compile_options(bh_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wundef -Wvla -Walloca
  -Wformat=2 -Wpointer-arith -Wwrite-strings -Wimplicit-fallthrough -Werror=implicit-function-declaration
  -Werror=unused-result -Wno-format-nonliteral
  $<$<BOOL:${BH_WERROR}>:-Werror>)

# What every object of ours is compiled with; the static init takes this alone (no sanitizer fits into it).
add_library(bh_common INTERFACE)
target_compile_features(bh_common INTERFACE c_std_11)
target_compile_definitions(bh_common INTERFACE _GNU_SOURCE _FILE_OFFSET_BITS=64 BH_VERSION="${PROJECT_VERSION}")
target_include_directories(bh_common INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(bh_common INTERFACE
  -fno-strict-aliasing -fno-common
  $<$<CONFIG:Release>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection>)
target_link_libraries(bh_common INTERFACE bh_warnings)

# BH_ASSERT stays on in release, and so does everything else: no NDEBUG anywhere.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")

add_library(bh_flags INTERFACE)
target_link_libraries(bh_flags INTERFACE bh_common)
set_property(TARGET bh_flags PROPERTY INTERFACE_POSITION_INDEPENDENT_CODE ON)
if(BH_SANITIZE)
  target_compile_options(bh_flags INTERFACE -fsanitize=${BH_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(bh_flags INTERFACE -fsanitize=${BH_SANITIZE})
endif()
if(BH_FUZZ)
  target_compile_options(bh_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
target_link_options(bh_flags INTERFACE $<$<CONFIG:Release>:-Wl,-z,relro,-z,now>)
