#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Makes small images out of Debian's busybox-static: make_image.py KIND OUT.

Kinds: those of KINDS below. OUT is a folder for layouts, a file for archives. `files:N` is a layout with N files, for
the benchmark; `hostile:NAME` a layout whose second layer holds the entry HOSTILE[NAME].
"""
import gzip
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile

BUSYBOX = os.environ.get("BH_BUSYBOX", "/bin/busybox")
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
OCI = "application/vnd.oci.image."
APPLETS = ["sh", "ls", "cat", "id", "env", "pwd", "stat", "test", "true", "echo", "readlink", "touch", "mkdir", "rm", "find", "wc"]


class Tar:
    """A tar in memory; entries in the order of the calls."""

    def __init__(self, **kw):
        self.raw = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.raw, mode="w", format=kw.get("format", tarfile.PAX_FORMAT))

    def add(self, name, kind=tarfile.REGTYPE, data=b"", mode=None, link="", uid=0, gid=0, pax=None, mtime=1000000000, dev=(0, 0)):
        info = tarfile.TarInfo(name)
        info.type = kind
        info.mode = mode if mode is not None else (0o755 if kind == tarfile.DIRTYPE else 0o644)
        info.linkname = link
        info.uid, info.gid, info.mtime = uid, gid, mtime
        info.devmajor, info.devminor = dev
        info.size = len(data)
        info.pax_headers = pax or {}
        self.tar.addfile(info, io.BytesIO(data))
        return self

    def dir(self, name, **kw):
        return self.add(name, tarfile.DIRTYPE, **kw)

    def symlink(self, name, link, **kw):
        return self.add(name, tarfile.SYMTYPE, link=link, **kw)

    def hardlink(self, name, link, **kw):
        return self.add(name, tarfile.LNKTYPE, link=link, **kw)

    def bytes(self):
        self.tar.close()
        return self.raw.getvalue()


def sha(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def compress(data, how):
    if how == "gzip":
        return gzip.compress(data, mtime=0)
    if how == "zstd":
        return subprocess.run(["zstd", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout
    return data


class Image:
    """Layers and a config; written as a layout, an archive of one, or as docker saves it."""

    def __init__(self, config=None, arch=ARCH):
        self.layers = []  # (plain bytes, stored bytes, how)
        self.config = config or {}
        self.arch = arch
        self.blobs = {}
        self.diff_ids = None

    def layer(self, tar, how="gzip"):
        plain = tar if isinstance(tar, bytes) else tar.bytes()
        self.layers.append((plain, compress(plain, how), how))
        return self

    def config_json(self):
        diff_ids = self.diff_ids or [sha(plain) for plain, _, _ in self.layers]
        return {"architecture": self.arch, "os": "linux", "config": self.config, "rootfs": {"type": "layers", "diff_ids": diff_ids}}

    def put(self, data):
        self.blobs[sha(data)] = data
        return {"digest": sha(data), "size": len(data)}

    def put_json(self, value, kind):
        return {"mediaType": OCI + kind, **self.put(json.dumps(value).encode())}

    def manifest(self):
        layers = []
        for _, stored, how in self.layers:
            kind = "layer.v1.tar" + ("" if how == "plain" else "+" + how)
            layers.append({"mediaType": OCI + kind, **self.put(stored)})
        config = self.put_json(self.config_json(), "config.v1+json")
        return self.put_json({"schemaVersion": 2, "config": config, "layers": layers}, "manifest.v1+json")

    def entries(self, refs=("latest",), platform_of=None):
        manifest = self.manifest()
        if platform_of:
            manifest["platform"] = {"os": "linux", "architecture": platform_of}
        return [{**manifest, "annotations": {"org.opencontainers.image.ref.name": ref}} for ref in refs]


def write_layout(out, images, index=None):
    """`images`: Image or (Image, refs)."""
    os.makedirs(out + "/blobs/sha256")
    manifests = []
    for item in images:
        image, refs = item if isinstance(item, tuple) else (item, ("latest",))
        manifests += image.entries(refs)
        for digest, data in image.blobs.items():
            with open(f"{out}/blobs/sha256/{digest[7:]}", "wb") as f:
                f.write(data)
    with open(out + "/oci-layout", "w", encoding="utf-8") as f:
        f.write('{"imageLayoutVersion": "1.0.0"}')
    with open(out + "/index.json", "w", encoding="utf-8") as f:
        json.dump(index or {"schemaVersion": 2, "manifests": manifests}, f)


def pack(folder, out, how="plain"):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        tar.add(folder, arcname=".")
    with open(out, "wb") as f:
        f.write(compress(raw.getvalue(), how))


def write_archive(out, image, how="plain"):
    folder = out + ".d"
    write_layout(folder, [image])
    pack(folder, out, how)
    shutil.rmtree(folder)


def write_docker(out, image, how="plain"):
    """The old form: layers as plain tars in folders, a repeated one as a link to the first."""
    tar, names = Tar(), []
    for i, (plain, _, _) in enumerate(image.layers):
        tar.dir(f"layer{i}").add(f"layer{i}/layer.tar", data=plain)
        names.append(f"layer{i}/layer.tar")
    if os.environ.get("BH_DOCKER_LINK"):
        tar.dir("again").symlink("again/layer.tar", "../layer0/layer.tar")
        names[0] = "again/layer.tar"
    tar.add("config.json", data=json.dumps(image.config_json()).encode())
    tar.add("manifest.json", data=json.dumps([{"Config": "config.json", "RepoTags": ["x:1"], "Layers": names}]).encode())
    with open(out, "wb") as f:
        f.write(compress(tar.bytes(), how))


# --- what is in them ---

def base(**kw):
    t = Tar(**kw)
    for name in ["./", "./bin", "./etc", "./b", "./opq", "./srv", "./var", "./home"]:
        t.dir(name)
    with open(BUSYBOX, "rb") as f:
        t.add("./bin/busybox", data=f.read(), mode=0o755)
    for applet in APPLETS:
        t.symlink("./bin/" + applet, "busybox")
    t.add("etc/passwd", data=b"root:x:0:0:root:/root:/bin/sh\napp:x:1234:4321:app:/srv:/bin/sh\n")
    t.add("etc/group", data=b"root:x:0:\napp:x:4321:\nstaff:x:50:\n")
    t.add("b/keep", data=b"keep\n").add("b/gone", data=b"gone\n").add("b/replaced", data=b"old\n")
    t.add("opq/old", data=b"old\n").dir("opq/sub").add("opq/sub/old", data=b"old\n")
    t.add("srv/one", data=b"linked\n").hardlink("srv/two", "srv/one")
    t.add("srv/owned", data=b"x", uid=1234, gid=4321, mode=0o640)
    t.add("srv/setuid", data=b"#!/bin/sh\n", mode=0o6755)
    t.add("srv/\u00e9-name", data=b"utf-8\n")
    return t


def second(**kw):
    t = Tar(**kw)
    t.dir("b").add("b/.wh.gone").add("b/replaced", data=b"new\n")
    t.dir("opq").add("opq/.wh..wh..opq").add("opq/new", data=b"new\n")
    t.add("etc/motd", data=b"hello\n").add("deep/er/than/its/parents", data=b"deep\n")
    # A file of this layer stays although the one below it is hidden.
    t.add("both", data=b"upper\n").add(".wh.both")
    return t


CONFIG = {"Env": ["PATH=/bin:/srv", "FROM_IMAGE=yes", "LANG=C", "HOME=/nowhere", "BULKHEAD_AGENT=forged", "OVERRIDDEN=image"],
          "WorkingDir": "/srv/work", "User": "app"}


def good(how=("gzip", "zstd"), config=None):
    return Image(CONFIG if config is None else config).layer(base(), how[0]).layer(second(), how[1])


DEVICE = {"kind": tarfile.CHRTYPE, "dev": (1, 3)}
HOSTILE = {
    "absolute": lambda t: t.add("/etc/evil", data=b"x"),
    "dotdot": lambda t: t.add("a/../../evil", data=b"x"),
    "symlink-write": lambda t: t.symlink("out", "/tmp").add("out/evil", data=b"x"),
    "symlink-dir": lambda t: t.symlink("out", "../../../..").add("out/a/b", data=b"x"),
    "file-parent": lambda t: t.add("f", data=b"x").add("f/evil", data=b"x"),
    "device": lambda t: t.add("srv/null", **DEVICE),
    "block": lambda t: t.add("disk", kind=tarfile.BLKTYPE, dev=(8, 0)),
    "long-name": lambda t: t.add("n" * 256, data=b"x"),
    "long-path": lambda t: t.add("/".join(["d" * 200] * 25), data=b"x"),
    "hardlink-lower": lambda t: t.hardlink("srv/three", "srv/one"),
    "hardlink-absolute": lambda t: t.hardlink("srv/three", "/etc/shadow"),
    "hardlink-dotdot": lambda t: t.hardlink("srv/three", "../../etc/shadow"),
    "hardlink-symlink": lambda t: t.symlink("out", "/etc").hardlink("srv/three", "out/shadow"),
    "hardlink-dir": lambda t: t.dir("d").hardlink("srv/three", "d"),
    "big-id": lambda t: t.add("srv/far", data=b"x", uid=70000),
    "whiteout-dotdot": lambda t: t.add(".wh..."),
    "whiteout-empty": lambda t: t.add("a/.wh."),
    "root-file": lambda t: t.symlink("./", "/tmp"),
    "control-name": lambda t: t.add("\x1b[31mred/../x", data=b"x"),
}
HARMLESS = {
    "dev-null": lambda t: t.dir("dev").add("dev/null", **DEVICE),
    "fifo": lambda t: t.add("srv/fifo", kind=tarfile.FIFOTYPE),
    "replaced-link": lambda t: t.symlink("r", "/tmp").dir("r").add("r/inside", data=b"x"),
    "covered": lambda t: t.symlink("workspace", "/etc").symlink("proc", "/srv").symlink("tmp", "srv").add("dev", data=b"no directory"),
    "xattrs": lambda t: t.dir("forged", pax={"SCHILY.xattr.user.overlay.opaque": "y"}).add("forged/x", data=b"x"),
}


def second_layer(make, how="plain"):
    t = Tar()
    make(t)
    return Image(CONFIG).layer(base()).layer(t, how)


def edit_blob(out, pick, change):
    """Changes the bytes of one blob in place: its name stays."""
    with open(out + "/index.json", encoding="utf-8") as f:
        manifest = json.load(f)["manifests"][0]["digest"][7:]
    with open(f"{out}/blobs/sha256/{manifest}", encoding="utf-8") as f:
        names = {"manifest": manifest, **{k: v for k, v in zip(["layer0", "layer1"], [l["digest"][7:] for l in json.load(f)["layers"]])}}
    with open(f"{out}/blobs/sha256/{manifest}", encoding="utf-8") as f:
        names["config"] = json.load(f)["config"]["digest"][7:]
    path = f"{out}/blobs/sha256/{names[pick]}"
    with open(path, "rb") as f:
        data = f.read()
    with open(path, "wb") as f:
        f.write(change(data))


def damaged(pick, change):
    def make(out):
        write_layout(out, [good()])
        edit_blob(out, pick, change)
    return make


def flip(data):
    return data[:len(data) // 2] + bytes([data[len(data) // 2] ^ 0x55]) + data[len(data) // 2 + 1:]


def rewritten(change, how="gzip"):
    """A layer whose stored bytes are not what a tar should be, with digests that agree to them."""
    def make(out):
        image = Image(CONFIG).layer(base())
        plain = second().bytes()
        stored = change(plain, compress(plain, how))
        image.layers.append((plain, stored, how))
        write_layout(out, [image])
    return make


def cyclic(out):
    """Indexes that lead to indexes, deeper than any image has."""
    image = Image()
    inner = image.put_json({"schemaVersion": 2, "manifests": []}, "index.v1+json")
    for _ in range(8):
        inner = image.put_json({"schemaVersion": 2, "manifests": [inner]}, "index.v1+json")
    write_layout(out, [image], {"schemaVersion": 2, "manifests": [inner]})


def many_layers(n):
    def make(out):
        image = Image()
        layer = {"mediaType": OCI + "layer.v1.tar", **image.put(Tar().bytes())}
        config = image.put_json({"architecture": ARCH, "os": "linux", "rootfs": {"type": "layers", "diff_ids": [layer["digest"]] * n}},
                                "config.v1+json")
        manifest = image.put_json({"schemaVersion": 2, "config": config, "layers": [layer] * n}, "manifest.v1+json")
        write_layout(out, [image], {"schemaVersion": 2, "manifests": [manifest]})
    return make


def stacked(n):
    """n different layers on a base."""
    image = Image().layer(base())
    for i in range(n):
        image.layer(Tar().add(f"l{i}", data=b"%d\n" % i), "plain")
    return image


def files(n):
    """n files of 2 KB in folders of 100."""
    t = base()
    for i in range(n):
        if i % 100 == 0:
            t.dir(f"usr/share/d{i // 100}") if i else t.dir("usr").dir("usr/share").dir("usr/share/d0")
        t.add(f"usr/share/d{i // 100}/f{i}", data=(b"%d\n" % i) * (2048 // (len(str(i)) + 1)))
    return Image({"Env": ["PATH=/bin"]}).layer(t, "gzip")


def two_names(out):
    one, two = good(), Image({"Env": ["PATH=/bin"]}).layer(base())
    write_layout(out, [(one, ["one"]), (two, ["registry.example:5000/two:1.0"])])


def two_platforms(out):
    image, other = good(), good()
    other.arch = "s390x"
    entries = image.entries(platform_of=ARCH) + other.entries(platform_of="s390x")
    entries.append({**image.put_json({"x": 1}, "manifest.v1+json"), "platform": {"os": "unknown", "architecture": "unknown"}})
    inner = image.put_json({"schemaVersion": 2, "manifests": [{k: v for k, v in e.items() if k != "annotations"} for e in entries]},
                           "index.v1+json")
    image.blobs.update(other.blobs)
    write_layout(out, [(image, [])], {"schemaVersion": 2, "manifests": [inner]})


def other_arch(out):
    image = good()
    image.arch = "s390x"
    write_layout(out, [image])


def wrong_diff_id(out):
    image = good()
    image.diff_ids = [sha(image.layers[0][0]), "sha256:" + "0" * 64]
    write_layout(out, [image])


def truncated_archive(out):
    write_archive(out, good())
    os.truncate(out, os.path.getsize(out) // 2 + 100)


KINDS = {
    "layout": lambda out: write_layout(out, [good()]),
    "layout-plain": lambda out: write_layout(out, [good(("plain", "plain"))]),
    "no-config": lambda out: write_layout(out, [good(config={})]),
    "root-user": lambda out: write_layout(out, [good(config={"User": "0:0", "Env": ["PATH=/bin"]})]),
    "number-user": lambda out: write_layout(out, [good(config={"User": "4000:staff", "Env": ["PATH=/bin"]})]),
    "unknown-user": lambda out: write_layout(out, [good(config={"User": "nobody-knows"})]),
    "archive": lambda out: write_archive(out, good()),
    "archive-gzip": lambda out: write_archive(out, good(), "gzip"),
    "archive-zstd": lambda out: write_archive(out, good(), "zstd"),
    "docker": lambda out: write_docker(out, good()),
    "docker-gzip": lambda out: write_docker(out, good(), "gzip"),
    "two-names": two_names,
    "two-platforms": two_platforms,
    "other-arch": other_arch,
    "wrong-diff-id": wrong_diff_id,
    "cyclic": cyclic,
    "layers-100000": many_layers(100000),
    "stack-120": lambda out: write_layout(out, [stacked(120)]),
    "truncated-layer": damaged("layer1", lambda d: d[:-20]),
    "flipped-layer": damaged("layer1", flip),
    "flipped-manifest": damaged("manifest", lambda d: d.replace(b'"schemaVersion": 2', b'"schemaVersion": 3')),
    "flipped-config": damaged("config", lambda d: d.replace(b"linux", b"lunix")),
    "cut-gzip": rewritten(lambda plain, stored: stored[:-30]),
    "cut-zstd": rewritten(lambda plain, stored: stored[:-8], "zstd"),
    "cut-tar": rewritten(lambda plain, stored: plain[:600], "plain"),
    "garbage-tar": rewritten(lambda plain, stored: plain + b"garbage" * 100, "plain"),
    "garbage-gzip": rewritten(lambda plain, stored: stored + b"garbage behind the end"),
    "no-tar": rewritten(lambda plain, stored: b"this is no tar archive\n" * 100, "plain"),
    "empty-layer": rewritten(lambda plain, stored: b"", "plain"),
    "truncated-archive": truncated_archive,
}


def make(kind, out):
    name, _, argument = kind.partition(":")
    if name == "files":
        write_layout(out, [files(int(argument))])
    elif name == "hostile":
        write_layout(out, [second_layer(HOSTILE[argument])])
    elif name == "harmless":
        write_layout(out, [second_layer(HARMLESS[argument])])
    elif name == "closed":
        write_layout(out, [second_layer(lambda t: t.dir(argument, mode=0))])
    elif name == "workdir":
        write_layout(out, [good(config={"WorkingDir": argument, "Env": ["PATH=/bin"]})])
    else:
        KINDS[name](out)


if __name__ == "__main__":
    if sys.argv[1:] == ["--hostile"]:
        print("\n".join(HOSTILE))
    else:
        make(sys.argv[1], sys.argv[2])
