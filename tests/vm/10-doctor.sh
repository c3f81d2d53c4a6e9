#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# cgroup v2 and an older kernel: what doctor says, and that a pipeline runs.
# shellcheck source=tests/integration/lib.sh
source /test/tests/integration/lib.sh
begin "$1" "$0" "$@"
expect 0 'doctor finds what it needs' bulkhead doctor
printf '%s\n' "$out" | sed 's/^/# /'
printf 'version: 1\nname: t\nagents: [{name: a, run: "echo hi > out/x", outputs: [x]}, {name: b, inputs: [x], topology: per-agent, run: "cat in/x"}]\n' > p.yaml
expect 0 'a pipeline runs' bulkhead run p.yaml -q
expect 0 'and its lines are there' bulkhead logs @latest -a b --no-prefix
same 'hi' "$out" hi
check 'nothing is left' wait_for_none
done_testing
