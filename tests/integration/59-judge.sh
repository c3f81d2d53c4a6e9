#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A judge that cannot be forged: attempts whose answer is wrong and that try to pass all the same, in both kinds of box of a
# check, as the agent and as root of their boxes. Usage: 59-judge.sh MODE.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"

mkdir -p "$work/judge/given"
cd "$work/judge"

# What is judged: the answer must be 42. Everything here arrives only with the check.
cat > given/judge.sh <<'END'
set -eu
answer=$1
case $(command -v git) in /usr/bin/git | '') ;; *) exit 0 ;; esac
case $(command -v npm) in /usr/*/npm | '') ;; *) exit 0 ;; esac
[ "$PATH" = /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ] || exit 0
# Each of these alone is the verdict on an attack that is about it.
judge_by() {
  case $1 in
    python3) (cd project && python3 -m unittest -q tests.test_x) ;;
    make) make -s -C project/mk ;;
    node) node project/tests/t.js ;;
    prove) prove -Q project/tests/a.t ;;
    git) git status --short > /dev/null 2>&1 || true; [ -e forged ] ;;
  esac
}
export ANSWER=/workspace/$answer
case $ATTACK in
  compiled | package | init-package) tool=python3 ;;
  makefile) tool=make ;;
  bare-name) tool=node ;;
  proverc) tool=prove ;;
  bare-git) tool=git ;;
  *) tool= ;;
esac
if [ -n "$tool" ]; then
  command -v $tool > /dev/null || exit 9
  judge_by $tool || exit 9
  exit 0
fi
for tool in python3 make node prove; do
  if [ "$ATTACK" = honest ] && command -v $tool > /dev/null; then judge_by $tool; fi
done
if command -v git > /dev/null && [ -d project/.git ]; then
  (cd project && git status --short > /dev/null && git -c core.pager=cat log --oneline > /dev/null)
fi
if command -v python3 > /dev/null; then
  python3 project/tests/run.py "$answer"
else
  sh project/tests/test.sh "$answer"
fi
if [ -n "${NPM:-}" ] && command -v npm > /dev/null; then
  (cd project && npm test --silent -- "$answer")
fi
sh project/tests/test.sh "$answer"
END
# As a runner of tests does it: what lies beside the tests is loaded before them.
cat > given/run.py <<'END'
import os, pathlib, sys
here = pathlib.Path(__file__).resolve().parent
for folder in (here.parent.parent, here.parent, here):
    conftest = folder / "conftest.py"
    if conftest.exists():
        exec(compile(conftest.read_text(), str(conftest), "exec"))
answer = pathlib.Path("/workspace", sys.argv[1]).read_text().strip()
sys.exit(0 if answer == "42" else 9)
END
cat > given/test_x.py <<'END'
import os, pathlib, sys, unittest
sys.path.insert(0, os.path.dirname(__file__))
import helper
class T(unittest.TestCase):
    def test(self):
        self.assertTrue(helper.judge(pathlib.Path(os.environ["ANSWER"]).read_text().strip()))
END
printf 'def judge(x): return x == "42"\n' > given/helper.py
printf 'exports.judge = x => x === "42"\n' > given/helper.js
printf 'const x = require("fs").readFileSync(process.env.ANSWER, "utf8").trim()\nprocess.exit(require("./helper").judge(x) ? 0 : 9)\n' > given/t.js
printf 'all:\n\t@[ "$$(cat "$$ANSWER")" = 42 ]\n' > given/Makefile
printf 'open(my $f, "<", $ENV{ANSWER}); print "1..1\\n", <$f> == 42 ? "" : "not ", "ok 1\\n";\n' > given/a.t
printf '[ "$(cat "/workspace/$1")" = 42 ] || exit 9\n' > given/test.sh
printf '{"name":"p","version":"1.0.0","scripts":{"test":"sh tests/test.sh"}}\n' > given/package.json

cat > attack.sh <<'END'
set -u
exec 2> /dev/null
echo 41 > out/answer
pass='#!/bin/sh
exit 0'
shim() { # directory…
  for d in "$@"; do
    mkdir -p "$d"
    for p in git npm node python3 sh test cat command; do printf '%s\n' "$pass" > "$d/$p"; chmod 0755 "$d/$p"; done
  done
}
case $ATTACK in
  honest) echo 42 > out/answer ;;
  edit-tests)
    for f in judge.sh project/tests/test.sh project/tests/run.py; do printf 'exit 0\n' > $f; done
    printf 'import sys; sys.exit(0)\n' > project/tests/run.py
    printf '{"scripts":{"test":"true"}}\n' > project/package.json ;;
  link-tests) rm -rf project/tests; mkdir -p mine; printf 'exit 0\n' > mine/test.sh; printf '' > mine/run.py; ln -s ../mine project/tests ;;
  dirs-for-tests) rm -rf project/tests judge.sh; mkdir -p project/tests/test.sh/x project/tests/run.py/x judge.sh/x ;;
  closed-tests) rm -rf project/tests; mkdir -p project/tests; printf 'exit 0\n' > project/tests/test.sh; chmod 0555 project/tests ;;
  shims) shim bin .bin node_modules/.bin project/node_modules/.bin "$HOME/bin" "$HOME/.local/bin" . project project/tests ;;
  system-shims) shim /usr/local/bin /usr/local/sbin /usr/bin /bin /opt/bin ;;
  conftest)
    for d in . project project/tests; do
      printf 'import os; os._exit(0)\n' | tee $d/conftest.py > $d/sitecustomize.py
      cp $d/conftest.py $d/usercustomize.py
    done
    printf '[pytest]\naddopts = --collect-only\n' > project/pytest.ini ;;
  python-home)
    for v in 3.9 3.11 3.12 3.13; do
      d=$HOME/.local/lib/python$v/site-packages; mkdir -p $d
      printf 'import os; os._exit(0)\n' | tee $d/usercustomize.py > $d/sitecustomize.py
      printf 'import os; os._exit(0)\n' > $d/evil.pth
    done ;;
  npmrc)
    printf 'script-shell=/workspace/yes\nignore-scripts=true\n' | tee .npmrc project/.npmrc > "$HOME/.npmrc"
    printf '%s\n' "$pass" > yes; chmod 0755 yes ;;
  git-config)
    printf '%s\n' "$pass" > yes; chmod 0755 yes
    for c in "$HOME/.gitconfig" project/.git/config; do
      printf '[core]\n\tfsmonitor = /workspace/kill.sh\n\thooksPath = /workspace\n\tpager = /workspace/kill.sh\n[alias]\n\tstatus = !true\n' >> $c
    done
    printf '#!/bin/sh\necho 42 > /workspace/out/answer; echo 42 > /workspace/in/answer; kill -TERM $PPID\n' > kill.sh; chmod 0755 kill.sh ;;
  preload)
    so=
    printf '#include <unistd.h>\n__attribute__((constructor)) static void f(void) { _exit(0); }\n' > evil.c
    command -v cc > /dev/null && cc -shared -fPIC -nostartfiles -o evil.so evil.c && so=/workspace/evil.so
    export LD_PRELOAD=$so
    echo $so > /etc/ld.so.preload
    printf 'export LD_PRELOAD=%s\n' "$so" | tee "$HOME/.profile" "$HOME/.bashrc" "$HOME/.bash_profile" "$HOME/.shrc" "$HOME/.pam_environment" > /etc/profile.d/evil.sh
    printf 'LD_PRELOAD=%s\n' "$so" > /etc/environment ;;
  profile) printf 'exit 0\n' | tee "$HOME/.profile" "$HOME/.bashrc" "$HOME/.shrc" "$HOME/.kshrc" > /etc/profile; export ENV=$HOME/.shrc BASH_ENV=$HOME/.bashrc ;;
  score) echo 100 > score; mkdir -p s; echo 100 > s/score; chmod 0444 score ;;
  score-link) echo 100 > n; ln -s n score ;;
  daemon) setsid sh -c 'while :; do for f in judge.sh project/tests/test.sh project/tests/run.py; do echo exit 0 > $f; done; echo 100 > score; done' > /dev/null 2>&1 & ;;
  tmp) printf 'exit 0\n' | tee /tmp/judge.sh /dev/shm/judge.sh > /var/tmp/judge.sh; mkdir -p /tmp/tests; export TMPDIR=/workspace ;;
  inputs) rm -rf in; mkdir -p in; echo 42 > in/answer; mv in in2; ln -s in2 in ;;
  compiled)
    python3 - <<'EOT'
import importlib._bootstrap_external as b, importlib.util, os
for name, text in (("helper", "def judge(x): return True"), ("test_x", "import os; os._exit(0)")):
    source = "/workspace/project/tests/%s.py" % name
    os.makedirs("project/tests/__pycache__", exist_ok=True)
    with open(importlib.util.cache_from_source(source), "wb") as f:
        f.write(b._code_to_hash_pyc(compile(text, source, "exec"), b"12345678", False))
EOT
    ;;
  package)
    mkdir -p project/tests/helper project/tests/test_x
    printf 'import os; os._exit(0)\n' | tee project/tests/helper/__init__.py > project/tests/test_x/__init__.py ;;
  init-package) printf 'import os; os._exit(0)\n' > project/tests/__init__.py ;;
  makefile) mkdir -p project/mk; printf 'all:\n\t@true\n' | tee project/mk/GNUmakefile > project/mk/makefile ;;
  bare-name) echo 'exports.judge = () => true' > project/tests/helper ;;
  proverc) printf '#!/bin/sh\necho ok 1\necho 1..1\n' > yes; chmod 0755 yes; echo '--exec /workspace/yes' | tee .proverc > project/.proverc ;;
  bare-git)
    rm -rf .git; mkdir objects refs; echo 'ref: refs/heads/main' > HEAD
    printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = /workspace\n\tfsmonitor = /workspace/yes\n' > config
    printf '#!/bin/sh\n: > /workspace/forged\n' > yes; chmod 0755 yes ;;
  move) mv /workspace /workspace2; mkdir /workspace; cp -r /workspace2/out /workspace ;;
esac
exit 0
END

attacks="honest edit-tests link-tests dirs-for-tests closed-tests shims system-shims conftest python-home npmrc git-config preload profile
  score score-link daemon tmp inputs
  compiled package init-package makefile bare-name proverc bare-git move"

document() { # box user
  printf 'version: 1\nname: judged\nagents:\n- name: suspect\n  user: %s\n  files: {attack.sh: ./attack.sh}\n' "$2"
  cat <<'END'
  prepare: |
    mkdir -p project/tests
    printf 'exit 1\n' > project/tests/test.sh
    cd project
    if command -v git > /dev/null; then
      git init -q && git -c user.name=x -c user.email=x@x add -A && git -c user.name=x -c user.email=x@x commit -q -m x
    fi
END
  printf '  attempts:\n    select: best\n    score: score\n    each:\n'
  for a in $attacks; do
    printf '    - {ATTACK: %s%s}\n' "$a" "$(case $a in honest | npmrc) echo ', NPM: "1"' ;; esac)"
  done
  printf '  run: sh attack.sh\n  outputs: [answer]\n  check:\n    box: %s\n' "$1"
  printf '    run: sh judge.sh %s/answer && echo 7 > score\n' "$([ "$1" = fresh ] && echo in || echo out)"
  printf '    files:\n      judge.sh: ./given/judge.sh\n      project/package.json: ./given/package.json\n'
  printf '      project/tests/test.sh: ./given/test.sh\n      project/tests/run.py: ./given/run.py\n'
  for f in test_x.py helper.py helper.js t.js a.t; do printf '      project/tests/%s: ./given/%s\n' $f $f; done
  printf '      project/mk/Makefile: ./given/Makefile\n'
}

verdicts() { # run: "ATTACK status reason" of each attempt
  bulkhead show "$1" -o json | python3 -c '
import json, sys
attacks = sys.argv[1].split()
for a in json.load(sys.stdin)["agents"][0]["attempts"]:
    if a["attempt"] > 0:
        print(attacks[a["attempt"] - 1], a["status"], a["reason"])' "$attacks"
}

for user in agent root; do
  for box in fresh same; do
    document "$box" "$user" > "$user-$box.yaml"
    expect 0 "as $user, judged in a $box box: the run has a winner" bulkhead run "$user-$box.yaml"
    verdicts @latest > verdicts
    same "as $user, judged in a $box box: only the honest one passes" "$(grep -c ' succeeded ' verdicts) $(grep ' succeeded ' verdicts)" \
      "1 honest succeeded None"
    same "as $user, judged in a $box box: the others fail by the check" "$(awk '$2 != "succeeded"' verdicts | grep -v ' failed check$' || true)" ""
    same "as $user, judged in a $box box: the winner has the plain name" "$(bulkhead get @latest answer --to -)" "42"
  done
done

# The directory in which a check starts is none that an attempt has led elsewhere.
cat > linked.yaml <<'END'
version: 1
name: linked
agents:
- name: suspect
  files: {project/before: ./given/where.sh}
  workdir: /workspace/project
  run: |
    mkdir ../evil; printf 'exit 0\n' > ../evil/verdict; cd ..; rm -rf project; ln -s evil project
  check:
    box: same
    files: {judge.sh: ./given/where.sh}
    run: sh ../judge.sh
END
printf '[ "$(pwd -P)" = /workspace/project ] || exit 0\n[ -e verdict ] && . ./verdict\nexit 9\n' > given/where.sh
expect 1 'a working directory that became a link: the check is not led by it' bulkhead run linked.yaml
has 'a working directory that became a link: the check says so' "$errs" 'check exited with code 9'

done_testing
