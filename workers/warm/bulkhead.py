# SPDX-License-Identifier: Apache-2.0
"""Warm attempts of bulkhead, from Python (docs/warm.md). Nothing but the standard library, Python 3.9 or later.

    import json, sqlite3, my_slow_imports
    import bulkhead

    model = my_slow_imports.load()
    attempt = bulkhead.warm()        # returns once for each attempt, in a fork of its own, in a box of its own
    print(attempt.number, attempt.argv)
    attempt.run()                    # does what `run` says: a script here and now, everything else by exec
"""
import ctypes
import errno
import gc
import os
import select
import socket
import struct
import sys

__all__ = ["Attempt", "NotWarm", "warm"]

_REPLY = 3
# Numbers that are the same on every architecture since 424.
_PIDFD_OPEN, _CLOSE_RANGE = 434, 436
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_SETNS = {"x86_64": 308, "aarch64": 268}
# PyDLL keeps the interpreter's lock: the fork is made with it held, by the one thread that there is.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
_libc.mmap.argtypes = [ctypes.c_size_t] * 2 + [ctypes.c_int] * 3 + [ctypes.c_long]
_libc.mmap.restype = ctypes.c_void_p
_libc.fork, _libc.setns, _libc.capset  # looked up once: a fork would do it each time


class NotWarm(RuntimeError):
    """This process cannot be a fork server: nobody has started it for that, or it has more than one thread."""


class Attempt:
    """What an attempt is told: its number, the arguments of `run`, its environment (which os.environ is, too)."""

    def __init__(self, number, argv, env):
        self.number, self.argv, self.env = number, argv, env

    def __repr__(self):
        return "Attempt(number=%r, argv=%r)" % (self.number, self.argv)

    def run(self):
        """Does what `run` says, and does not return. A Python script or module runs in this process, with all that it
        has imported and with the global names of the server's own script; any other command is executed, which keeps
        nothing of it."""
        if os.path.basename(self.argv[0]).startswith("python"):
            flags, rest = _split_flags(self.argv[1:])
            if rest and (not rest[0].startswith("-") or rest[0] == "-m" and len(rest) > 1):
                _set_flags(flags)
                sys.exit(_run_python(self.argv[0], rest))
        _execute(self.argv)


def _split_flags(words):
    """Flags that an interpreter can take on when it is running, and the rest."""
    flags = ""
    for i, word in enumerate(words):
        if len(word) < 2 or word[0] != "-" or word[1:].strip("uBq"):
            return flags, words[i:]
        flags += word[1:]
    return flags, []


def _set_flags(flags):
    if "B" in flags:
        sys.dont_write_bytecode = True
    if "u" in flags:
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(write_through=True)


def _execute(argv):
    """As the init of a box does it: what cannot start ends with the status that a shell would have."""
    _flush()
    try:
        os.execvp(argv[0], argv)
    except OSError as problem:
        os.write(2, os.fsencode("bulkhead: cannot execute '%s': %s\n" % (argv[0], os.strerror(problem.errno))))
        os._exit(127 if problem.errno == errno.ENOENT else 126)


def _server_names():
    """What the server's script has defined. Its functions keep these very objects."""
    return {k: v for k, v in vars(sys.modules["__main__"]).items() if not (k.startswith("__") and k.endswith("__"))}


def _run_python(python, rest):
    import runpy

    names = _server_names()
    if rest[0] == "-m":
        sys.argv = rest[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[1], init_globals=names, run_name="__main__", alter_sys=True)
        return 0
    try:
        open(rest[0], "rb").close()
    except IsADirectoryError:
        pass  # may have a __main__.py
    except OSError as problem:
        sys.stderr.write("%s: can't open file '%s': %s\n" % (python, os.path.abspath(rest[0]), problem.strerror))
        return 2
    sys.argv = rest
    sys.path.insert(0, os.path.dirname(os.path.abspath(rest[0])))
    runpy.run_path(rest[0], init_globals=names, run_name="__main__")
    return 0


def _check(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))
    return result


def _syscall(number, *args):
    return _libc.syscall(ctypes.c_long(number), *args)


def _prctl(option, first, second=0):
    return _libc.prctl(option, first, second, 0, 0)


# --- what a fork gives up: nobody believes it, the init of its box looks ---


def _drop_everything():
    _check(_prctl(28, 0xEF), "set secure bits")
    for cap in _caps:
        _libc.prctl(24, cap, 0, 0, 0)
    _check(_prctl(47, 4), "clear ambient capabilities")
    _check(_libc.capset(_NO_CAPS[0], _NO_CAPS[1]), "drop capabilities")
    _check(_prctl(4, 1), "be looked at")


_NO_CAPS = struct.pack("Ii", 0x20080522, 0), bytes(24)
_caps = [cap for cap in range(64) if _prctl(23, cap) >= 0]  # that this kernel knows


def _make_ruleset():
    """A ruleset without a rule, and the rights that its rule gives; nothing where the kernel has no Landlock."""
    abi = _syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    if abi < 2:
        return ()
    rights = (1 << (16 if abi >= 5 else 15 if abi >= 3 else 14)) - 1
    rules = struct.pack("QQQ", rights, 0, 3)
    size = ctypes.c_size_t(24 if abi >= 6 else 8)
    return _check(_syscall(_LANDLOCK_CREATE, rules, size, ctypes.c_uint(0)), "make a ruleset"), rights & ~(1 << 6 | 1 << 11)


def _fence(ruleset=None):
    ruleset = _make_ruleset() if ruleset is None else ruleset
    if not ruleset:
        return
    fd, rights = ruleset
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    _check(_syscall(_LANDLOCK_ADD, fd, 1, struct.pack("=Qi", rights, root), ctypes.c_uint(0)), "allow the root")
    _check(_syscall(_LANDLOCK_RESTRICT, fd, ctypes.c_uint(0)), "restrict the attempt")
    os.close(root)
    os.close(fd)


def _make_filter():
    def op(code, yes, no, k):
        return struct.pack("HBBI", code, yes, no, k)

    code = op(0x20, 0, 0, 0) + op(0x15, 0, 1, _SETNS[os.uname().machine]) + op(6, 0, 0, 0x50001) + op(6, 0, 0, 0x7FFF0000)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer)))
    return program, buffer


_filter = _make_filter()  # made once: a fork has other things to do


def _give_up_setns():
    _check(_prctl(22, 2, ctypes.addressof(_filter[0])), "give up setns")


def _keep_only(fds):
    for stream in range(3):
        os.dup2(fds[1 + stream], stream)
    if fds[0] != _REPLY:
        os.dup2(fds[0], _REPLY, inheritable=False)
    _check(_syscall(_CLOSE_RANGE, ctypes.c_uint(_REPLY + 1), ctypes.c_uint(0xFFFFFFFF), ctypes.c_uint(0)), "close files")


def _leave_session():
    try:
        os.setsid()
    except PermissionError:
        pass


def _wait_until_gone(parent, at_most=None):
    waiting = select.poll()
    waiting.register(parent, select.POLLIN)
    waiting.poll(at_most)


def _become_new(fds, parent, ruleset=None):
    _leave_session()
    _drop_everything()
    os.chdir("/")
    _fence(ruleset)
    os.umask(0o022)
    _give_up_setns()
    # Who has forked us must be gone, and have left us to the init of the server's box.
    _wait_until_gone(parent)
    _keep_only(fds)


# --- what it is told ---


def _read(have):
    part = os.read(_REPLY, 65536)
    if not part:
        os._exit(1)
    return have + part


def _replace_environment(env):
    # What stays is not touched: each page that is written is a page that is not shared.
    now = os.environb
    for name in [n for n in now if n not in env]:
        del now[name]
    for name, value in env.items():
        if now.get(name) != value:
            now[name] = value


def _understand(have):
    """Working directory, arguments and environment; None: something is still to come."""
    line, end, rest = have.partition(b"\n")
    if not end:
        return None
    word, argc, envc, size = line.split()
    if word != b"go":
        os._exit(1)
    if len(rest) < int(size):
        return None
    strings = rest.split(b"\0")
    argc, envc = int(argc), int(envc)
    argv = [os.fsdecode(s) for s in strings[1 : 1 + argc]]
    env = dict(s.partition(b"=")[::2] for s in strings[1 + argc : 1 + argc + envc])
    return strings[0], argv, env


def _hear():
    have = _read(b"")
    told = _understand(have)
    while not told:
        have = _read(have)
        told = _understand(have)
    os.close(_REPLY)
    os.chdir(told[0])
    _replace_environment(told[2])
    return told[1]


# What is needed for that is touched when nobody waits for it: the first touch of each page copies it.


def _rehearse_hearing():
    _understand(b"go 1 1 8\n/\0a\0b=c\0")
    _replace_environment({**os.environb, b"BULKHEAD_ATTEMPT": b"0"})
    _make_attempt([])


def _reseed():
    """All forks have one memory: what is random there must not be. By number a fork may even be the process that its
    server was, so that what asks for the number of the process notices nothing."""
    modules = sys.modules
    if "random" in modules:
        modules["random"].seed()
    for name in ("srandom", "srand", "srand48"):
        getattr(_libc, name)(int.from_bytes(os.urandom(4), sys.byteorder, signed=True))
    if "_ssl" in modules:
        modules["_ssl"].RAND_add(os.urandom(48), 48.0)
    if "tempfile" in modules:
        modules["tempfile"]._name_sequence = None
    if "numpy.random" in modules:
        modules["numpy.random"].seed()
    if "torch" in modules:
        modules["torch"].seed()


def _know_itself():
    """The second fork is the first one as far as Python knows."""
    threading = sys.modules.get("threading")
    renumber = getattr(threading and threading.main_thread(), "_set_native_id", None)
    if renumber:
        renumber()


def _make_attempt(argv):
    number = os.environ.get("BULKHEAD_ATTEMPT", "")
    return Attempt(int(number) if number.isdigit() else 0, argv, dict(os.environ))


def _attempt(fds, parent, ruleset):
    try:
        _become_new(fds, parent, ruleset)
        os.write(_REPLY, b"here\n")
        _know_itself()  # while it is looked at
        _rehearse_hearing()
        argv = _hear()
    except BaseException as problem:  # its box's init is told by the end of the socket
        sys.stderr.write("bulkhead: %s\n" % problem)
        sys.stderr.flush()
        os._exit(1)
    return _make_attempt(argv)


# --- the server ---


def _map_privately(limit=1 << 20):
    """What is mapped shared from a file, for reading, becomes a private mapping of the same bytes: the C library maps a
    table of its own so. Not that anybody minds; but where something is shared, the init of a box has to look at all of a
    fork's pages to know that it cannot be written."""
    with open("/proc/self/maps") as maps:
        shared = [line.split(None, 5) for line in maps if " r--s " in line]
    for where, _, offset, _, inode, name in (words for words in shared if len(words) == 6):
        start, end = (int(n, 16) for n in where.split("-"))
        size, offset = end - start, int(offset, 16)
        try:
            with open(name.rstrip("\n"), "rb") as file, open("/proc/self/mem", "rb", 0) as memory:
                if size <= limit and os.fstat(file.fileno()).st_ino == int(inode):
                    file.seek(offset)
                    if memory.seek(start) and memory.read(size).rstrip(b"\0") == file.read(size).rstrip(b"\0"):
                        # PROT_READ; MAP_PRIVATE | MAP_FIXED: in its place, at once
                        _libc.mmap(start, size, 1, 0x12, file.fileno(), offset)
        except OSError:
            pass  # it stays as it is


def _enter(fds, spaces):
    """In the first fork: its control groups, then its namespaces, the last of which only children are in."""
    for fd in fds[4 + spaces :]:
        os.write(fd, b"0")
    for fd in fds[4 : 4 + spaces]:
        _check(_libc.setns(fd, 0), "enter a namespace")
    return _check(_syscall(_PIDFD_OPEN, os.getpid(), ctypes.c_uint(0)), "hold oneself")


def _take_socket():
    text = os.environ.get("BULKHEAD_WARM_FD", "")
    if not text.isdigit():
        raise NotWarm("there is no BULKHEAD_WARM_FD: this is no `prepare` with `warm: true`")
    os.set_inheritable(int(text), False)
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=int(text))


def _flush():
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


_SETTLE_MS = 3  # a fork that has just been made has the processors first
_NO_MORE = 77  # exit status of a first fork that has met the end of the socket
_LATER = ((), 0)  # an order that is still to come


def _close(fds):
    for fd in fds:
        os.close(fd)


def _receive(sock):
    """Descriptors and how many of them are namespaces; None: no more will come."""
    while True:
        try:
            text, fds, _, _ = socket.recv_fds(sock, 128, 32)
        except OSError:
            return None
        if not text:
            return None
        words = text.split()
        if len(words) == 4 and words[:2] == [b"fork", b"1"] and len(fds) == 4 + int(words[2]) + int(words[3]):
            return fds, int(words[2])
        _close(fds)


def _rehearse():
    """In the first fork: what it and the second will call. What has been called once is bound to its library."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, open(os.devnull, "wb", 0) as null:
        socket.send_fds(ours, [b"fork 1 0 1\n"], [null.fileno()] * 5)
        fds, spaces = _receive(theirs)
        _libc.setns(-1, 0)
        fds.append(_enter(fds, spaces))
        _leave_session()
        os.chdir("/")
        os.umask(0o022)
        _wait_until_gone(fds[-1], 0)
        os.dup2(fds[0], fds[1])
        os.dup2(fds[0], fds[2], inheritable=False)
        _know_itself()
        _close(fds)


def _get_ready(ahead):
    """What needs no order. An attempt that cannot be made is still one that was asked for: it is not said yet."""
    try:
        _reseed()
        if ahead:
            _rehearse()
        return _make_ruleset(), None
    except Exception as problem:
        return (), problem


def _serve(sock, order, ahead):
    """In the first fork. Returns in the second, the attempt."""
    ruleset, why_not = _get_ready(ahead)
    try:
        if order is _LATER:
            order = _receive(sock)
        if not order:
            os._exit(_NO_MORE)
        if why_not:
            raise why_not
        fds, spaces = order
        parent = _enter(fds, spaces)
        second = _libc.fork()
    except BaseException as problem:
        sys.stderr.write("bulkhead: %s\n" % problem)
        sys.stderr.flush()
        os._exit(1)
    if second != 0:
        os._exit(0)
    sock.detach()
    return _attempt(fds, parent, ruleset)


def _fork():
    try:
        return os.fork()
    except OSError:
        return -1


def warm():
    """Says that everything is prepared. Never returns in the process that calls it, which ends when no more attempts
    are to come; returns an Attempt in each of its forks."""
    sock = _take_socket()
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise NotWarm("a fork server has one thread, and here are %d: a fork would have none of the others" % threads)
    _flush()
    _reseed()  # so that what it needs is there, once and for all
    _map_privately()
    gc.collect()
    gc.freeze()  # else the collector would copy what all forks share
    sock.send(b"ready 1\n")
    order, ahead = _receive(sock), False
    more = select.poll()
    more.register(sock, select.POLLIN)
    while order:
        first = _fork()
        if first == 0:
            attempt = _serve(sock, order, ahead)
            if attempt:
                return attempt
        if first < 0 and order is _LATER:
            order = _receive(sock) or _LATER  # which is then refused
        _close(order[0])
        # From the second one on who forks is there before it is asked for. Not earlier: until somebody has asked we must
        # be alone.
        order = _LATER
        if first > 0 and os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) == _NO_MORE:
            break
        ahead = not more.poll(_SETTLE_MS)
    os._exit(0)
