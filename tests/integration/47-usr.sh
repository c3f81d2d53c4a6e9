#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A setup installs into /usr and /opt of the base host, whoever runs bulkhead. Commands of agents stand in single quotes on purpose.
# shellcheck disable=SC2016
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"
mode=$1

cat > usr.yaml << 'YAML'
version: 1
name: usr
agents:
  - name: a
    outputs: [said]
    setup: |
      set +e
      {
      mkdir -p /usr/local/lib/new/deep && echo made
      printf '#!/bin/sh\necho tool\n' > /usr/local/bin/tool && chmod 755 /usr/local/bin/tool && echo installed
      cp /bin/true /usr/bin/new && mv -f /usr/bin/new /usr/bin/false && echo replaced
      rm /usr/bin/yes && echo removed
      mkdir -p /opt/app/bin && echo opt
      mv /usr/local/lib/new /usr/local/lib/moved && echo moved
      { echo x >> /usr/bin/cat && echo in place; } 2> /dev/null || echo not in place
      } > /workspace/setup.log
    run: |
      cat setup.log > out/said
      { tool; /usr/bin/false && echo false is true; test -e /usr/bin/yes || echo gone; test -d /usr/local/lib/moved/deep && ls -d /opt/app/bin; } >> out/said
YAML
expect 0 'a setup that installs' bulkhead run -q usr.yaml
said=$(bulkhead get @latest said --to said.out --force > /dev/null 2>&1; cat said.out)
place='not in place'
[ "$mode" != root ] || place='in place'
same 'makes, replaces, removes and moves' "$said" "made
installed
replaced
removed
opt
moved
$place
tool
false is true
gone
/opt/app/bin"
check 'of the host nothing has changed' test -e /usr/bin/yes -a ! -e /usr/local/bin/tool
if [ "$mode" != root ]; then
  made=$(ls -d "$BULKHEAD_HOME"/bases/usrdirs-*)
  expect 0 'the next box of the kind' bulkhead run -q usr.yaml
  same 'shares the directories' "$(ls -d "$BULKHEAD_HOME"/bases/usrdirs-*)" "$made"
  same 'which hold nothing else' "$(find "$made" ! -type d | head -n 1)" ''
fi
done_testing
