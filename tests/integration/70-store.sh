#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# State directories that are not what they should be: a clear error, the right exit status, nothing lost.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"

bulkhead init p > /dev/null 2>&1
expect 0 'a run' bulkhead run p/pipeline.yaml -q

mkdir readonly
chmod 0555 readonly
if [ "$(id -u)" -ne 0 ]; then # root of any namespace writes where it likes
  expect 7 'an unwritable home' bulkhead run p/pipeline.yaml --home readonly/state -q
  has 'is named' "$errs" readonly
fi
echo x > file
expect 7 'a home that is a file' bulkhead run p/pipeline.yaml --home file -q
has 'is named' "$errs" file

python3 -c 'import sqlite3,sys; db=sqlite3.connect(sys.argv[1]); db.execute("pragma user_version=9999"); db.commit()' home/store/bulkhead.db
expect 7 'a store of a newer version' bulkhead ps --all
has 'is said to be newer' "$errs" 'version 9999'
expect 7 'and is not written' bulkhead run p/pipeline.yaml -q
rm -rf home/store
expect 7 'a store that is gone while its runs are there' bulkhead run p/pipeline.yaml -q
has 'names the run' "$errs" 'was recorded in it'
export BULKHEAD_HOME=$work/home2
expect 0 'another home' bulkhead run p/pipeline.yaml -q
head -c 4096 /dev/urandom > home2/store/bulkhead.db
rm -f home2/store/bulkhead.db-wal home2/store/bulkhead.db-shm
expect 7 'a store that is no database' bulkhead ps --all

if [ "$1" = root ]; then
  mkdir small
  if mount -t tmpfs -o size=3m none small 2> /dev/null; then
    cat > big.yaml << 'YAML'
version: 1
name: big
agents:
  - {name: small, run: 'echo 1 > out/a', outputs: [a]}
  - {name: big, inputs: [a], run: 'head -c 20000000 /dev/zero > out/b', outputs: [b]}
YAML
    status=0
    "$work/bin/bulkhead" run big.yaml --home small/state > run.out 2> run.err || status=$?
    check 'a full disk fails the run or the agent, not more' test "$status" -eq 1 -o "$status" -eq 7
    has 'and says so' "$(cat run.err run.out; bulkhead explain @latest --home small/state 2>&1)" 'full'
    mount -o remount,size=200m small
    expect 0 'with space again it goes on' bulkhead run --resume @latest --home small/state -q
    same 'and what had succeeded was not run again' \
      "$(bulkhead show @latest --home small/state -o json | field '["agents"][0]["attempts"].__len__()')" 1
    umount small
  else
    skip_all tmpfs 'cannot mount a tmpfs'
  fi
fi
done_testing
