#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Disk limits where the file system of the state directory has project quotas: by themselves, and boxes that are held by them.
set -u
tests=/test/build/tests
export BH_MUST_RUN=boxes,quota TMPDIR=/state BH_QUOTA_DIR=/state
status=0
"$tests/test_disk_quota" || status=1
/test/tests/integration/boxes/in_mode.sh root "$tests/test_boxes_disk" || status=1
exit "$status"
