#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ways out of a box under another kernel, which has modules, version 2 of control groups and an older Landlock; and what may be tried
# on no machine that is anybody's: a core_pattern that runs a program.
# shellcheck source=tests/integration/lib.sh
source /test/tests/integration/lib.sh
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
begin "$1" "$0" "$@"

if [ "$1" = root ]; then
  mkdir handler
  # shellcheck disable=SC2016 # for the handler
  printf '#!/usr/bin/busybox sh\nbusybox cat > /dev/null\necho "$1" >> %s/handler/ran\n' "$work" > handler/run
  chmod 0755 handler/run
  printf '|%s/handler/run %%e' "$work" > /proc/sys/kernel/core_pattern
  cat > crash.sh << 'SH'
ulimit -c 0
ulimit -c unlimited 2> /dev/null
ulimit -c 0
sh -c 'kill -SEGV $$'
echo "$?"
SH
  sh crash.sh > /dev/null 2>&1 || true
  end=$((SECONDS + 10))
  while [ ! -s handler/ran ] && [ "$SECONDS" -lt "$end" ]; do read -r -t 0.05 -u 9 _ || true; done
  same 'outside a crash runs the handler, although the limit of core dumps is 0' "$(cat handler/ran)" sh
  : > handler/ran
  printf 'version: 1\nname: t\ntopology: per-agent\nagents: [{name: a, files: {crash.sh: ./crash.sh}, run: [sh, crash.sh]}]\n' > p.yaml
  expect 0 'an agent crashes' bulkhead run p.yaml -q
  expect 0 'and says so' bulkhead logs @latest --no-prefix
  has 'by a signal' "$out" 139
  sh crash.sh > /dev/null 2>&1 || true # the handler would have been asked before this one
  end=$((SECONDS + 10))
  while [ ! -s handler/ran ] && [ "$SECONDS" -lt "$end" ]; do read -r -t 0.05 -u 9 _ || true; done
  same 'no handler of the host ran for it' "$(cat handler/ran)" sh
  printf 'core' > /proc/sys/kernel/core_pattern
  done_testing || exit 1
fi
unset BH_WORK BH_ENTERED
BH_ESCAPE=/test/build/tests/escape_attempts BH_ESCAPE_PARTS=one exec /test/tests/escape/run.sh "$1"
