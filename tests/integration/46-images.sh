#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Commands of agents stand in single quotes on purpose.
# shellcheck disable=SC2016
# Images and directories as the base of boxes: what a box finds of them, what is refused and why, what two runs share.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"
mode=$1
case $mode in root | subids) range=yes ;; *) range=no ;; esac # whether files can have owners
[ -x /bin/busybox ] || skip_all busybox "busybox-static is not installed"
image() { python3 -B "$BH_SOURCE/tests/support/make_image.py" "$@"; }

# pipeline FILE BASE COMMAND [LINE of the agent]…
pipeline() {
  local file=$1 base=$2 command=$3
  shift 3
  {
    printf 'version: 1\nname: img\nbase: "%s"\nagents:\n  - name: a\n    outputs: [said]\n' "$base"
    printf '    %s\n' "$@"
    printf '    run: |\n      {\n'
    printf '%s\n' "$command" | sed 's/^/      /'
    printf '      } > /workspace/out/said 2>&1\n'
  } > "$file"
}
# Runs it and gives what the agent said in $said.
said() {
  expect 0 "$1 runs" bulkhead run -q "$2"
  said=$(bulkhead get @latest said --to "$work/said.out" --force > /dev/null 2>&1; cat "$work/said.out")
}
half_made() { find "$1/bases" -mindepth 1 -maxdepth 1 -name '.bh-tmp-*' | wc -l; }
parts() { find "$BULKHEAD_HOME/bases/images" -mindepth 1 -maxdepth 1 -name "$1" | wc -l; }

# --- what will not run is not taken in ---
printf 'version: 1\nname: only\nagents:\n  - {name: a, run: "true"}\n  - {name: b, topology: per-agent, base: "oci:not-there", run: "true"}\n' > only.yaml
expect 0 'the base of an agent that is left out need not be there' bulkhead run -q only.yaml --only a
expect 3 'that of one who runs must' bulkhead run -q only.yaml --only b

# --- what a box finds ---
image layout good
pipeline good.yaml oci:good 'id -u; id -g; pwd
echo "$PATH $FROM_IMAGE $LANG $HOME $BULKHEAD_AGENT $OVERRIDDEN"
cat /b/*; ls /b /opq; cat /opq/new /both /etc/motd /deep/er/than/its/parents "/srv/é-name"
test ! -e /b/gone && test ! -e /opq/old && test ! -e /opq/sub && echo whiteouts
test ! -u /srv/setuid && test ! -g /srv/setuid && test -x /srv/setuid && echo no setuid
echo changed >> /srv/one && cat /srv/two
test -w /workspace && test -w /workspace/out && test -w /home/agent && test -w /tmp && test -w /srv/work && echo writable
cat /etc/passwd; test -d /proc/self && test -c /dev/null && echo places' 'env: {OVERRIDDEN: document}'
if [ "$range" = yes ]; then
  sed -i 's/^      echo changed.*/      stat -c %u:%g:%a \/srv\/owned \/srv\/one/' good.yaml
fi
said 'an image' good.yaml
has 'the user of the image' "$said" $'1234\n4321\n/srv/work\n'
has 'its environment, below what is ours and what the document says' "$said" '/bin:/srv yes C /home/agent a document'
has 'the newest of a file' "$said" $'keep\nnew\n'
has 'a file of the layer that hides the one below' "$said" $'upper\nhello\ndeep\nutf-8'
has 'whiteouts and opaque directories' "$said" whiteouts
has 'no setuid bits' "$said" 'no setuid'
has 'what the agent may write' "$said" writable
has 'an account of the image' "$said" 'app:x:1234:4321'
has 'proc and dev' "$said" places
if [ "$range" = yes ]; then
  has 'owners as the image has them' "$said" $'1234:4321:640\n0:0:644'
else
  has 'with one id all is the agent'"'"'s, and links of the image are files of their own' "$said" linked
fi
prov=$(bulkhead provenance @latest said -o json)
digest=$(printf '%s' "$prov" | field '[0]["base_digest"]')
has 'the digest of the image is in the provenance' "$digest" sha256:
same 'which is that of its manifest' "$digest" "$(field '["manifests"][0]["digest"]' < good/index.json)"

if [ "$mode" = subids ]; then
  same 'a folder of a box is of the subordinate ids' "$(stat -c %u "$BULKHEAD_HOME"/bases/images/range1-*/root | sort -u | head -n 1)" 300000
fi

# --- whose the workspace is ---
if [ "$range" = yes ]; then
  pipeline owners.yaml oci:good 'touch /workspace/z /workspace/out/z /home/agent/z; stat -c "%u:%g %a" /workspace /workspace/out /home/agent /workspace/z /workspace/out/z /home/agent/z /workspace/made /workspace/dir | sort -u; echo again > /workspace/made && echo mine > /workspace/dir/new && echo wrote' 'setup: mkdir /workspace/dir; echo made > /workspace/made'
  said 'an agent of the image' owners.yaml
  same 'owns its folders and files, by user and group' "$said" $'1234:4321 644\n1234:4321 775\nwrote'
  pipeline owners.yaml host 'touch z; stat -c "%u:%g %a" /workspace /workspace/out /home/agent z | sort -u'
  said 'an agent of the host' owners.yaml
  same 'does too' "$said" $'1000:1000 644\n1000:1000 775'
  pipeline owners.yaml host 'echo x > /workspace/beside && echo wrote' 'user: root'
  said 'user: root' owners.yaml
  same 'can write beside the agent' "$said" wrote
fi

# --- users ---
image no-config plain; pipeline plain.yaml oci:plain 'id -un; pwd; echo "$PATH"'
sed -i 's|^    run: .|    run: \||' plain.yaml
said 'an image that says nothing' plain.yaml
same 'has the usual agent, folder and path' "$said" $'agent\n/workspace\n/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
image root-user rooted; pipeline rooted.yaml oci:rooted 'id -u'
said 'an image whose user is root' rooted.yaml
same 'still runs agents as the agent' "$said" 1000
image number-user number; pipeline number.yaml oci:number 'id -u; id -g'
said 'a user by number with a group by name' number.yaml
same 'is found' "$said" $'4000\n50'
pipeline asroot.yaml oci:good 'id -u; echo "$HOME"; echo x > /etc/new && echo wrote' 'user: root'
said 'user: root in the document' asroot.yaml
same 'wins over the image' "$said" $'0\n/root\nwrote'
pipeline workdir.yaml oci:good 'pwd' 'workdir: /srv'
said 'workdir in the document' workdir.yaml
same 'wins over the image' "$said" /srv
for path in /proc/self/fd /sys/made /etc/hosts/x /etc/passwd/x; do
  rm -rf nodir; image "workdir:$path" nodir; pipeline nodir.yaml oci:nodir true
  expect 3 "an image that wants to work in $path" bulkhead run -q nodir.yaml
  has 'is told that it is its own fault' "$errs" "the WorkingDir '$path' of the image cannot be made"
done
image closed:etc closed; pipeline closed.yaml oci:closed 'echo here'
case $mode in
  root) expect 0 'an image whose /etc is closed, for root' bulkhead run -q closed.yaml ;;
  user)
    expect 3 'an image whose /etc is closed, without privileges' bulkhead run -q closed.yaml
    has 'is told that its modes are' "$errs" "the modes in the image keep its own user from '/etc/passwd'"
    ;;
esac
pipeline setup.yaml oci:good 'cat /etc/made; cat /workspace/given; touch /workspace/given' 'setup: echo made > /etc/made; echo given > /workspace/given'
said 'setup in an image' setup.yaml
same 'makes what run finds' "$said" $'made\ngiven'

# --- forms ---
for kind in archive archive-gzip archive-zstd docker docker-gzip; do
  image "$kind" "$kind.tar"
  pipeline form.yaml "oci-archive:$kind.tar" 'id -u; cat /b/replaced; test ! -e /b/gone && echo gone'
  said "$kind" form.yaml
  same "$kind is the same image" "$said" $'1234\nnew\ngone'
done
BH_DOCKER_LINK=1 image docker linked.tar
pipeline form.yaml oci-archive:linked.tar 'id -u'
said 'an archive of docker in which layers are links' form.yaml
image two-names names; pipeline names.yaml oci:names:one 'id -un'
said 'one of several by its name' names.yaml
same 'is the one' "$said" app
pipeline names.yaml oci:names:registry.example:5000/two:1.0 'id -un'
said 'a name with colons and slashes' names.yaml
image two-platforms platforms; pipeline platforms.yaml oci:platforms 'id -un'
said 'an index of platforms' platforms.yaml
image stack-120 stack; pipeline stack.yaml oci:stack 'cat /l0 /l60 /l119'
said '120 layers' stack.yaml
same 'all seen' "$said" $'0\n60\n119'
for name in dev-null fifo replaced-link covered xattrs; do
  rm -rf harmless; image "harmless:$name" harmless
  pipeline harmless.yaml oci:harmless 'test -d /workspace/out && test ! -L /proc && test -d /dev && test -d /tmp && test ! -L /tmp && ls /dev/null'
  said "$name" harmless.yaml
  same "$name does no harm" "$said" /dev/null
done

# --- a layer that is known and whose file is cut ---
rm -rf cut; cp -r good cut
layer=$(python3 -c 'import json,sys; i=json.load(open("cut/index.json"))["manifests"][0]["digest"][7:]; print(json.load(open("cut/blobs/sha256/"+i))["layers"][0]["digest"][7:])')
truncate -s -1 "cut/blobs/sha256/$layer"
pipeline cut.yaml oci:cut true
expect 3 'a known layer that is truncated' bulkhead run cut.yaml
has 'is noticed by its size' "$errs" 'it is truncated'

# --- what is shared ---
before=$(parts '*')
said 'the first image again' good.yaml
same 'makes nothing anew' "$(parts '*')" "$before"
rm -rf good2; cp -r good good2; pipeline good2.yaml oci:good2 'id -u'
said 'the same image elsewhere' good2.yaml
same 'is the same layers' "$(parts '*')" "$before"
same 'nothing half-made is left' "$(half_made "$BULKHEAD_HOME")" 0
expect 0 'gc' bulkhead gc -o json
same 'counts layers of images' "$(printf '%s' "$out" | field '["bases"]["kept"]')" "$(find "$BULKHEAD_HOME"/bases "$BULKHEAD_HOME"/bases/images -mindepth 1 -maxdepth 1 ! -name images | wc -l)"
image layout-plain twice
for i in 1 2 3; do
  pipeline "twice$i.yaml" oci:twice 'cat /b/replaced'
  bulkhead run -q "twice$i.yaml" > "twice$i.out" 2>&1 9>&- & pids[i]=$!
done
for i in 1 2 3; do check "import $i of three at once" wait "${pids[i]}"; done
same 'which left nothing half-made' "$(half_made "$BULKHEAD_HOME")" 0

# --- a directory ---
mkdir -p tree/bin tree/etc tree/data; cp /bin/busybox tree/bin/; ln -s busybox tree/bin/sh; ln -s busybox tree/bin/cat; ln -s busybox tree/bin/id
echo first > tree/data/file; ln tree/data/file tree/data/link; ln -s /etc/shadow tree/data/secret; chmod 04755 tree/bin/busybox
pipeline tree.yaml dir:tree 'cat /data/file /data/link; id -un; cat /data/secret || echo no secret'
sed -i 's|^    outputs: .*|&\n    env: {PATH: /bin}|' tree.yaml
said 'a directory' tree.yaml
has 'is the root' "$said" $'first\nfirst\nagent'
has 'its links lead into the box' "$said" 'no secret'
before=$(parts '*-tree-*')
said 'unchanged' tree.yaml
same 'it is not copied again' "$(parts '*-tree-*')" "$before"
echo second > tree/data/file
said 'changed' tree.yaml
has 'it is' "$said" $'second\nsecond'
mkdir -p "$work/elsewhere"; ln -s "$work/elsewhere" leads-out
pipeline out.yaml dir:leads-out 'true'
expect 3 'a link out of the folder' bulkhead run out.yaml
lacks 'is not told as the kernel does' "$errs" 'cross-device'
has 'is said to be one' "$errs" 'a link leads out of the folder of the pipeline'
expect 3 'no such directory' bulkhead run <(pipeline /dev/stdout dir:nowhere true)
has 'is named' "$errs" "cannot open the base 'dir:nowhere'"
pipeline mixed.yaml oci:archive.tar true
expect 3 'an archive as a layout' bulkhead run mixed.yaml
has 'is shown the other word' "$errs" "'oci-archive:archive.tar'"
pipeline mixed.yaml oci-archive:good true
expect 3 'a layout as an archive' bulkhead run mixed.yaml
has 'too' "$errs" "this is a folder: 'oci:good'"
truncate -s 64M tree/data/hole
pipeline hole.yaml dir:tree 'stat -c %s /data/hole' 'env: {PATH: /bin}'
ln -sf busybox tree/bin/stat
said 'a directory with a sparse file' hole.yaml
same 'which has its size' "$said" 67108864
check 'and takes no room' test "$(du -sk "$BULKHEAD_HOME/bases/images" | cut -f 1)" -lt 60000
rm tree/data/hole

# --- what lies beyond the folder is asked for ---
mkdir -p sub; pipeline sub/p.yaml dir:../tree 'cat /data/file' 'env: {PATH: /bin}'
expect 5 'a base outside' bulkhead run sub/p.yaml
has 'is refused without a grant' "$errs" 'not granted: base dir:../tree'
has 'says what to do' "$errs" 'run it with --grant'
same 'nothing was made of it' "$(bulkhead ps --all -o json | python3 -c 'import json,sys; print(sum(1 for r in json.load(sys.stdin) if r["status"] != "succeeded"))')" 0
expect 0 'with --grant it runs' bulkhead run -q --grant sub/p.yaml
expect 0 'plan says it' bulkhead plan sub/p.yaml
has 'first' "$out" 'base dir:../tree'

# --- what is refused, and what it leaves ---
gone() { # paths, which may hold files of ids that are only lent
  if [ "$mode" = subids ]; then unshare --map-root-user --map-auto rm -rf "$@"; else rm -rf "$@"; fi
}
fresh() { gone "$work/home2"; mkdir "$work/home2"; }
refused() { # kind status part…
  local kind=$1 status=$2 part base=oci:bad
  shift 2
  chmod -R u+w bad 2> /dev/null || true
  rm -rf bad; image "$kind" bad
  [ -d bad ] || base=oci-archive:bad
  pipeline bad.yaml "$base" true
  fresh
  BULKHEAD_HOME=$work/home2 expect "$status" "$kind" bulkhead run bad.yaml
  for part in "$@"; do has "$kind: $part" "$errs" "$part"; done
  same "$kind: nothing half-made" "$(half_made "$work/home2")" 0
  same "$kind: nothing is left" "$(find "$work/home2/bases/images" -mindepth 1 -maxdepth 1 2> /dev/null | wc -l)" 0
}
entry() { refused "hostile:$1" 3 "cannot be used: the entry '$2': $3" 'bad.yaml:3:7: base'; }
entry absolute /etc/evil 'its path is absolute'
entry dotdot a/../../evil "its path has '..' in it"
entry symlink-write out/evil "it would be written through 'out', which is a symbolic link"
entry symlink-dir out/a/b "it would be written through 'out'"
entry file-parent f/evil "it lies in 'f', which is no directory"
entry device srv/null 'it is a device node'
entry block disk 'it is a device node'
entry long-name "$(printf 'n%.0s' {1..256})" 'a name in its path is longer than 255 bytes'
entry hardlink-lower srv/three "it is a hard link to 'srv/one', which this layer does not hold (a file of a lower layer cannot be linked to)"
entry hardlink-absolute srv/three 'its path is absolute'
entry hardlink-dotdot srv/three "its path has '..' in it"
entry hardlink-symlink srv/three "it is a hard link to 'out/shadow', which is reached through a symbolic link"
entry hardlink-dir srv/three "it is a hard link to the directory 'd'"
entry whiteout-dotdot .wh... 'it is a whiteout of nothing'
entry whiteout-empty a/.wh. 'it is a whiteout of nothing'
entry root-file ./ 'it would stand in the place of the root directory'
entry control-name '\x1B[31mred/../x' "its path has '..' in it"
refused hostile:long-path 3 'its path is longer than 4000 bytes'
[ "$range" != yes ] || entry big-id srv/far 'it belongs to user 70000, and a box has none above 65535'
check 'nothing was written outside' test ! -e /tmp/evil
refused truncated-layer 3 "layer 'sha256:" 'it is truncated'
refused flipped-layer 3 "layer 'sha256:" "has the digest 'sha256:" 'its bytes were changed after the image was made'
refused flipped-manifest 3 'its digest is another one'
refused flipped-config 3 'its digest is another one'
refused wrong-diff-id 3 "the content of layer 'sha256:" 'is not what the config says'
refused cut-gzip 3 'truncated gzip input'
refused cut-zstd 3 'Truncated zstd input'
refused cut-tar 3 'it is truncated or damaged'
refused garbage-tar 3 'there is something else behind its end'
refused garbage-gzip 3 'there is something else behind its end'
refused no-tar 3 'it is no tar archive'
refused empty-layer 3 'it is empty'
refused truncated-archive 3 "the archive of 'oci-archive:bad' cannot be used" 'truncated'
refused cyclic 3 "the indexes of 'bad' lead to each other"
refused layers-100000 3 'it has 100000 layers, and a box can stack 400'
refused other-arch 3 'it is for linux on s390x'
refused two-names 3 'it holds 2 images' "'one', 'registry.example:5000/two:1.0'" 'oci:PATH:NAME'
pipeline bad.yaml oci:names:three true
expect 3 'a name that is not there' bulkhead run bad.yaml
has 'is said' "$errs" "it holds no image of the name 'three'"
image unknown-user unknown; pipeline bad.yaml oci:unknown true
expect 3 'a user that is not there' bulkhead run bad.yaml
has 'is named' "$errs" "the user 'nobody-knows' of the image is not in its /etc/passwd"
mkdir -p empty; pipeline bad.yaml oci:empty true
expect 3 'a folder that is no image' bulkhead run bad.yaml
has 'says what is missing' "$errs" 'it has no index.json'
said 'a neighbour of all those' good.yaml

# --- resume needs no file, until a layer is gone ---
image layout kept
pipeline kept.yaml oci:kept 'test -e /workspace/in/../never || true; cat /b/replaced'
{
  printf 'version: 1\nname: kept\nbase: oci:kept\nagents:\n  - {name: one, run: "echo 1 > out/x", workdir: /workspace, outputs: [x]}\n'
  printf '  - {name: two, inputs: [x], workdir: /workspace, run: "cat /b/replaced in/x; exit 7"}\n'
} > kept.yaml
expect 1 'a run that fails' bulkhead run -q kept.yaml
run=$(bulkhead ps --all -o json | field '[0]["run"]')
mv kept kept.gone
expect 1 'is resumed without its image' bulkhead run -q --resume "$run"
gone "$BULKHEAD_HOME"/bases/images/*-image-*
expect 3 'but not without its layers' bulkhead run -q --resume "$run"
has 'which is said' "$errs" "the base 'oci:kept' of this run is gone from the state directory"
image no-config kept
expect 3 'nor with another image in its place' bulkhead run -q --resume "$run"
has 'which is said too' "$errs" 'there is another one now'
rm -rf kept; mv kept.gone kept
expect 1 'with the old one back it goes on' bulkhead run -q --resume "$run"

done_testing
