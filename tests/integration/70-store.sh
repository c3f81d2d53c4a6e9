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
if [ "$(id -u)" -ne 0 ] || [ -n "${BH_ENTERED:-}" ]; then
  expect 7 'an unwritable home' bulkhead run p/pipeline.yaml --home readonly/state -q
  has 'is named' "$errs" readonly
fi
echo x > file
expect 7 'a home that is a file' bulkhead run p/pipeline.yaml --home file -q
has 'is named' "$errs" file

python3 - home/store/bulkhead.db << 'PY'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
tables = [r[0] for r in db.execute("select name from sqlite_master where type='table'")]
for table in tables:
    columns = [r[1] for r in db.execute(f"pragma table_info({table})")]
    if columns[:1] == ["version"]:
        db.execute(f"insert into {table} (" + ",".join(columns) + ") values (" + ",".join("9999" for _ in columns) + ")")
db.commit()
PY
expect 7 'a store of a newer version' bulkhead ps --all
has 'is said to be newer' "$errs" 'newer'
expect 7 'and is not written' bulkhead run p/pipeline.yaml -q
rm -rf home/store
expect 0 'a new store' bulkhead run p/pipeline.yaml -q
head -c 4096 /dev/urandom > home/store/bulkhead.db
rm -f home/store/bulkhead.db-wal home/store/bulkhead.db-shm
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
    has 'and says so' "$(cat run.err run.out; bulkhead explain @latest --home small/state 2>&1)" 'o space left'
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
