# SPDX-License-Identifier: Apache-2.0
# Limits of memory, processors, processes and open files: control groups by themselves, and boxes that are held by them.
add_executable(test_cgroup cgroup_test.c)
set_target_properties(test_cgroup PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_libraries(test_cgroup PRIVATE bh_cgroup bh_test_support PkgConfig::cmocka bh_flags)
bh_script_test(limits.cgroup SCRIPT $<TARGET_FILE:test_cgroup> LABEL limits TIMEOUT 60)

add_executable(test_boxes_limits boxes/limits_test.c)
set_target_properties(test_boxes_limits PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_libraries(test_boxes_limits PRIVATE bh_box_kit bh_test_support PkgConfig::cmocka bh_flags)
add_dependencies(test_boxes_limits bulkhead-launcher bulkhead-init)
foreach(mode root user userns userns-root root-nocgroup)
  bh_script_test(limits.boxes.${mode} SCRIPT ${CMAKE_CURRENT_SOURCE_DIR}/boxes/in_mode.sh
                 ARGS ${mode} $<TARGET_FILE:test_boxes_limits> LABEL limits TIMEOUT 180)
endforeach()
