# SPDX-License-Identifier: Apache-2.0
# The worker in real boxes, between a launcher and a scripted engine.
bh_test(integration.worker SOURCES worker_test.c ns_rig.c LINK bh_worker_rig bh_boxes LABEL integration TIMEOUT 120)
add_dependencies(test_integration_worker bulkhead-launcher bulkhead-init)
# The same with snapshots, attempts and their checks.
bh_test(judge.worker SOURCES attempts_test.c ns_rig.c LINK bh_worker_rig bh_boxes LABEL judge TIMEOUT 120)
add_dependencies(test_judge_worker bulkhead-launcher bulkhead-init)
