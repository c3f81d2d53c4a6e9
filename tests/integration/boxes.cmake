# SPDX-License-Identifier: Apache-2.0
# The ns backend through box.h: as root, as an ordinary user, as root of a user namespace.
add_library(bh_box_kit STATIC boxes/kit.c)
target_link_libraries(bh_box_kit PUBLIC bh_boxes PRIVATE bh_flags)
foreach(topic exec isolation network host_network files life spare lent)
  add_executable(test_boxes_${topic} boxes/${topic}_test.c)
  set_target_properties(test_boxes_${topic} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_link_libraries(test_boxes_${topic} PRIVATE bh_box_kit bh_test_support PkgConfig::cmocka bh_flags)
  add_dependencies(test_boxes_${topic} bulkhead-launcher bulkhead-init)
  foreach(mode root user userns)
    bh_script_test(boxes.${topic}.${mode} SCRIPT ${CMAKE_CURRENT_SOURCE_DIR}/boxes/in_mode.sh
                   ARGS ${mode} $<TARGET_FILE:test_boxes_${topic}> LABEL integration TIMEOUT 120)
  endforeach()
endforeach()
# Warm forks.
add_executable(warm_server ${PROJECT_SOURCE_DIR}/tests/support/warm_server.c)
set_target_properties(warm_server PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_libraries(warm_server PRIVATE bulkhead-warm bh_flags)
add_executable(test_boxes_warm boxes/warm_test.c)
set_target_properties(test_boxes_warm PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_libraries(test_boxes_warm PRIVATE bh_warm_helper bh_box_kit bh_test_support PkgConfig::cmocka bh_flags)
add_dependencies(test_boxes_warm bulkhead-launcher bulkhead-init)
foreach(mode root user userns)
  bh_script_test(forks.warm.${mode} SCRIPT ${CMAKE_CURRENT_SOURCE_DIR}/boxes/in_mode.sh
                 ARGS ${mode} $<TARGET_FILE:test_boxes_warm> LABEL forks TIMEOUT 120)
endforeach()
# Ends, by the thousand; ten times as many in a storm.
add_executable(test_boxes_endings boxes/endings_test.c)
set_target_properties(test_boxes_endings PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_libraries(test_boxes_endings PRIVATE bh_box_kit bh_test_support PkgConfig::cmocka bh_flags)
add_dependencies(test_boxes_endings bulkhead-launcher bulkhead-init)
foreach(mode root user userns)
  foreach(label endings storm)
    bh_script_test(${label}.exits.${mode} SCRIPT ${CMAKE_CURRENT_SOURCE_DIR}/boxes/in_mode.sh
                   ARGS ${mode} $<TARGET_FILE:test_boxes_endings> LABEL ${label} TIMEOUT 900)
  endforeach()
  set_property(TEST storm.exits.${mode} APPEND PROPERTY ENVIRONMENT BH_EXITS=100000)
endforeach()

# What boxes write, on the disk of this machine and on a small one of their own.
add_executable(test_boxes_disk boxes/disk_test.c)
set_target_properties(test_boxes_disk PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_libraries(test_boxes_disk PRIVATE bh_box_kit bh_test_support PkgConfig::cmocka bh_flags)
add_dependencies(test_boxes_disk bulkhead-launcher bulkhead-init)
foreach(mode root user userns)
  bh_script_test(limits.disk.${mode} SCRIPT ${CMAKE_CURRENT_SOURCE_DIR}/boxes/in_mode.sh
                 ARGS ${mode} $<TARGET_FILE:test_boxes_disk> LABEL limits TIMEOUT 120)
endforeach()

add_executable(test_boxes_reserve boxes/reserve_test.c)
set_target_properties(test_boxes_reserve PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_libraries(test_boxes_reserve PRIVATE bh_box_kit bh_test_support PkgConfig::cmocka bh_flags)
add_dependencies(test_boxes_reserve bulkhead-launcher bulkhead-init)
foreach(mode root userns)
  bh_script_test(limits.reserve.${mode} SCRIPT ${CMAKE_CURRENT_SOURCE_DIR}/boxes/in_mode.sh
                 ARGS ${mode} $<TARGET_FILE:test_boxes_reserve> LABEL limits TIMEOUT 120)
endforeach()

foreach(mode root-submounts user-submounts userns-root)
  bh_script_test(boxes.isolation.${mode} SCRIPT ${CMAKE_CURRENT_SOURCE_DIR}/boxes/in_mode.sh
                 ARGS ${mode} $<TARGET_FILE:test_boxes_isolation> LABEL integration TIMEOUT 120)
endforeach()
