/* SPDX-License-Identifier: Apache-2.0 */
/* Warm forks: a fork server in one box, its forks in boxes beneath it, and servers and forks that are up to no good. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "tests/integration/boxes/kit.h"
#include "tests/support/t.h"
#include "workers/rootfs/layers.h"
#include "workers/warm/helper.h"

#define N 5

static const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin",
                                  "PYTHONPATH=/workspace",
                                  "PYTHONDONTWRITEBYTECODE=1",
                                  "BULKHEAD_WARM_FD=3",
                                  "HOME=/tmp",
                                  NULL};

struct server {
    struct kit_box box;
    struct kit_exec exec;
    bool warm, over;
};

/* kit_exec is the first thing that its callbacks get. */
static struct server *server_of(void *arg)
{
    return (struct server *)(void *)((char *)arg - offsetof(struct server, exec));
}

static void on_warm(void *arg)
{
    struct server *s = server_of(arg);
    s->warm = s->over = true;
}

/* Ready, or at its end. */
static void wait_ready(struct server *s)
{
    while (!s->warm && !s->exec.done)
        kit_turn(&kit);
}

static void start_server(struct server *s, const char *program)
{
    const struct kit_how how = {.warm = true};
    const char *const argv[] = {"/usr/bin/python3", "/workspace/server.py", NULL};
    const struct bh_box_copy copies[] = {{"bulkhead.py", "bulkhead.py", 0644}, {"server.py", "server.py", 0644}};
    *s = (struct server){0};
    if (kit_create(&kit, &s->box, &how) != 0)
        fail_msg("create: %s", s->box.message);
    kit_deliver(&s->box, "bulkhead.py", bh_warm_helper);
    kit_deliver(&s->box, "server.py", program);
    s->exec.spec = (struct bh_exec_spec){.argv = argv, .env = env, .copies = copies, .n_copies = 2, .on_warm = on_warm};
    kit_start(&s->box, &s->exec);
    wait_ready(s);
}

static void end_server(struct server *s)
{
    if (!s->exec.done)
        kit.boxes->ops->kill(s->exec.exec, SIGKILL);
    kit_finish(&s->box, &s->exec);
    kit_exec_fini(&s->exec);
    T_INT(kit_destroy(&s->box, false), 0);
}

static void must_be_warm(struct server *s)
{
    if (s->warm)
        return;
    kit_finish(&s->box, &s->exec);
    fail_msg("the server is not ready: end %d status %d (%s) %s", (int)s->exec.result.end, s->exec.result.status,
             s->exec.step, s->exec.err.data);
}

/* As the worker does: what it has written is what its attempts stand on, while it stands on it too. */
static const char *freeze_beneath(struct server *s)
{
    static char layer[32];
    BH_CLEANUP_FREE char *boxes = bh_asprintf("%s/boxes", kit.run_dir), *layers = bh_asprintf("%s/layers", kit.run_dir);
    BH_CLEANUP_FREE char *upper = bh_asprintf("%s/upper", s->box.key);
    T_OK(bh_mkdir_p(layers, 0711, &err));
    BH_CLEANUP_FD int from = open(boxes, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    BH_CLEANUP_FD int to = open(layers, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)snprintf(layer, sizeof(layer), "warm-%s", s->box.key);
    T_OK(bh_layer_freeze(from, upper, to, layer, NULL, &err));
    return layer;
}

struct attempt {
    struct kit_box box;
    struct kit_exec exec;
    char number[32];
};

static const char *layer; /* of the attempts that are started */

static void start_attempt(struct server *s, struct attempt *a, int number, const char *command)
{
    const struct kit_how how = {.beneath = s->exec.exec, .layer = layer};
    const char *const argv[] = {"run", command, NULL};
    (void)snprintf(a->number, sizeof(a->number), "BULKHEAD_ATTEMPT=%d", number);
    const char *const own[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/agent", a->number, NULL};
    a->exec = (struct kit_exec){0};
    if (kit_create(&kit, &a->box, &how) != 0)
        fail_msg("create beneath: %s", a->box.message);
    a->exec.spec = (struct bh_exec_spec){.argv = argv, .env = own, .fork = true};
    kit_start(&a->box, &a->exec);
    a->exec.spec.argv = NULL;
    a->exec.spec.env = NULL;
}

static void end_attempt(struct attempt *a)
{
    kit_exec_fini(&a->exec);
    T_INT(kit_destroy(&a->box, false), 0);
}

/* A server whose forks do what the second word of `run` says. */
#define PRELUDE "import bulkhead, os, sys, random, signal\n"
#define SERVER                                                  \
    PRELUDE "numbers = list(range(1000))\n"                     \
            "open('/workspace/state', 'w').write('prepared')\n" \
            "attempt = bulkhead.warm()\n"                       \
            "exec(attempt.argv[1])\n"

static void run_attempt(struct server *s, struct attempt *a, int number, const char *command)
{
    start_attempt(s, a, number, command);
    kit_finish(&a->box, &a->exec);
}

static void check_end(const struct attempt *a, enum bh_exec_end end, int status)
{
    if (a->exec.result.end != end || a->exec.result.status != status)
        fail_msg("attempt: end %d status %d (%s), out '%s' err '%s'", (int)a->exec.result.end, a->exec.result.status,
                 a->exec.step, a->exec.out.data, a->exec.err.data);
}

static void an_attempt_runs(void **state)
{
    struct server s;
    struct attempt a;
    (void)state;
    start_server(&s, SERVER);
    must_be_warm(&s);
    run_attempt(&s, &a, 3, "print(attempt.number, len(numbers), os.getcwd(), os.environ['HOME']); sys.exit(7)");
    check_end(&a, BH_EXEC_EXITED, 7);
    T_STR(a.exec.out.data, "3 1000 /workspace /home/agent\n");
    end_attempt(&a);
    end_server(&s);
}

static void five_at_once_are_told_apart(void **state)
{
    struct server s;
    struct attempt a[N];
    (void)state;
    start_server(&s, SERVER);
    must_be_warm(&s);
    layer = freeze_beneath(&s);
    for (int i = 0; i < N; i++)
        start_attempt(&s, &a[i], i + 1,
                      "open('out/mine', 'w').write('x' * attempt.number)\n"
                      "print(open('state').read(), os.listdir('out'), random.random(), os.urandom(4).hex())\n"
                      "os.kill(os.getpid(), 9) if attempt.number == 2 else sys.exit(attempt.number)");
    for (int i = 0; i < N; i++)
        kit_finish(&a[i].box, &a[i].exec);
    for (int i = 0; i < N; i++) {
        struct stat st;
        int why;
        if (i == 1)
            check_end(&a[i], BH_EXEC_SIGNALED, SIGKILL);
        else
            check_end(&a[i], BH_EXEC_EXITED, i + 1);
        if (i != 1 && strncmp(a[i].exec.out.data, "prepared ['mine'] ", 18) != 0)
            fail_msg("attempt %d printed '%s', %s", i + 1, a[i].exec.out.data, a[i].exec.err.data);
        for (int j = 0; j < i; j++)
            T_TRUE(strcmp(a[i].exec.out.data, a[j].exec.out.data) != 0);
        T_INT(kit_barrier(&a[i].box), 0);
        BH_CLEANUP_FD int fd = kit_open_output(&a[i].box, "out", "mine", &why);
        T_TRUE(fd >= 0 && fstat(fd, &st) == 0 && st.st_size == i + 1);
    }
    T_TRUE(!s.exec.done); /* it has not felt any of it */
    layer = NULL;
    for (int i = 0; i < N; i++)
        end_attempt(&a[i]);
    end_server(&s);
}

/* What an attempt sees of itself, and what it may no longer do. */
static void an_attempt_has_nothing_left(void **state)
{
    struct server s;
    struct attempt a;
    (void)state;
    start_server(&s, SERVER);
    must_be_warm(&s);
    run_attempt(
        &s, &a, 1,
        "st = dict(l.split(':\t', 1) for l in open('/proc/self/status').read().splitlines() if ':\t' in l)\n"
        "print(st['CapEff'], st['CapBnd'], st['NoNewPrivs'], st['Seccomp'], os.getuid(), os.getgid(), os.umask(0))\n"
        "print(sorted(os.listdir('/proc/self/fd')), os.getsid(0) == os.getpid())\n"
        "print([p for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()], os.path.exists('/deliver'))\n"
        "import ctypes, socket\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "fd = os.open('/proc/self/ns/mnt', os.O_RDONLY)\n"
        "print([(libc.setns(fd, 0), ctypes.get_errno()), (libc.unshare(0x10000000), ctypes.get_errno()),\n"
        "       (libc.mount(b'x', b'/mnt', b'tmpfs', 0, None), ctypes.get_errno())])\n"
        "try: open('/workspace/in/x', 'w')\n"
        "except OSError as e: print(e.errno)\n"
        "try: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)\n"
        "except OSError as e: print(e.errno)\n"
        "print('BULKHEAD_WARM_FD' in os.environ)");
    check_end(&a, BH_EXEC_EXITED, 0);
    T_STR(a.exec.out.data, "0000000000000000 0000000000000000 1 2 1000 1000 18\n"
                           "['0', '1', '2', '3'] True\n"
                           "[] False\n"
                           "[(-1, 1), (-1, 1), (-1, 1)]\n"
                           "30\n"
                           "1\n"
                           "False\n");
    end_attempt(&a);
    end_server(&s);
}

/* No link and no descriptor leads out of its root, as for every other agent. */
static void an_attempt_is_behind_the_second_wall(void **state)
{
    struct server s;
    struct attempt a;
    (void)state;
    start_server(&s, SERVER);
    must_be_warm(&s);
    run_attempt(&s, &a, 1,
                "import ctypes\n"
                "libc = ctypes.CDLL(None, use_errno=True)\n"
                "abi = libc.syscall(444, None, ctypes.c_size_t(0), 1)\n"
                "open('a', 'w'); os.mkdir('d'); os.rename('a', 'd/a')\n"
                "try: os.mknod('/tmp/w', 0o20644, 0)\n"
                "except OSError as e: print(e.errno in (1, 13) or abi < 2)\n"
                "else: print(abi < 2)\n");
    check_end(&a, BH_EXEC_EXITED, 0);
    T_STR(a.exec.out.data, "True\n");
    end_attempt(&a);
    end_server(&s);
}

static void a_process_that_does_not_cooperate_is_a_command(void **state)
{
    struct server s;
    (void)state;
    start_server(&s, "print('prepared')\nraise SystemExit(4)\n");
    T_TRUE(!s.warm);
    kit_finish(&s.box, &s.exec);
    T_INT(s.exec.result.end, BH_EXEC_EXITED);
    T_INT(s.exec.result.status, 4);
    T_STR(s.exec.out.data, "prepared\n");
    kit_exec_fini(&s.exec);
    T_INT(kit_freeze(&s.box, "cold"), 0);
}

static void check_refused(const char *program, int error, const char *step)
{
    struct server s;
    start_server(&s, program);
    T_TRUE(!s.warm);
    kit_finish(&s.box, &s.exec);
    if (s.exec.result.end != BH_EXEC_NOT_STARTED || s.exec.result.status != error || !strstr(s.exec.step, step))
        fail_msg("end %d status %d (%s) %s", (int)s.exec.result.end, s.exec.result.status, s.exec.step,
                 s.exec.err.data);
    kit_exec_fini(&s.exec);
    T_INT(kit_destroy(&s.box, false), 0);
}

static void a_server_that_is_none_is_refused(void **state)
{
    (void)state;
    check_refused("import os, signal\nos.write(3, b'hello, I am ready')\nsignal.pause()\n", EPROTO, "BULKHEAD_WARM_FD");
    check_refused(PRELUDE "import subprocess\nsubprocess.Popen(['/bin/cat'], stdin=subprocess.PIPE)\nbulkhead.warm()\n",
                  EBUSY, "1 other processes");
    check_refused(PRELUDE "f = open('/workspace/open', 'w')\nbulkhead.warm()\n", EBUSY, "open for writing");
    check_refused("import os, signal, threading\nthreading.Thread(target=threading.Event().wait).start()\n"
                  "os.write(3, b'ready 1\\n')\nsignal.pause()\n",
                  EBUSY, "threads");
}

static void the_helper_refuses_threads(void **state)
{
    struct server s;
    (void)state;
    start_server(&s, PRELUDE "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
                             "bulkhead.warm()\n");
    T_TRUE(!s.warm);
    kit_finish(&s.box, &s.exec);
    T_INT(s.exec.result.status, 1);
    T_TRUE(strstr(s.exec.err.data, "NotWarm") && strstr(s.exec.err.data, "here are 2"));
    kit_exec_fini(&s.exec);
    T_INT(kit_destroy(&s.box, false), 0);
}

/* The attempt fails, says why, and a next one of a better server works. */
static void check_bad_fork(const char *program, int error, const char *step)
{
    struct server s;
    struct attempt a;
    start_server(&s, program);
    must_be_warm(&s);
    run_attempt(&s, &a, 1, "print('ran')");
    if (a.exec.result.end != BH_EXEC_NOT_STARTED || a.exec.result.status != error || !strstr(a.exec.step, step))
        fail_msg("%s\nend %d status %d (%s), out '%s' err '%s'", program, (int)a.exec.result.end, a.exec.result.status,
                 a.exec.step, a.exec.out.data, a.exec.err.data);
    T_STR(a.exec.out.data, "");
    end_attempt(&a);
    end_server(&s);
}

/* Speaks the protocol by hand: f(fds, spaces, groups) forks as it likes. */
#define BY_HAND(body)                                                                    \
    PRELUDE "import socket, ctypes\n"                                                    \
            "B = bulkhead\n"                                                             \
            "sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=3)\n" \
            "sock.send(b'ready 1\\n')\n"                                                 \
            "text, fds, _, _ = socket.recv_fds(sock, 128, 32)\n"                         \
            "spaces = int(text.split()[2])\n" body "\nwhile True: signal.pause()\n"
/* The rest of a well-behaved fork. */
#define FORK(more)                                                       \
    "if os.fork() == 0:\n"                                               \
    "    parent = B._enter(fds, spaces)\n"                               \
    "    if os.fork() != 0: os._exit(0)\n"                               \
    "    def fork():\n" more "        os.write(3, b'here\\n')\n"         \
    "        B._hear(); print('ran'); sys.stdout.flush(); os._exit(0)\n" \
    "    fork()"

static void forks_that_are_not_what_they_must_be(void **state)
{
    (void)state;
    check_bad_fork(BY_HAND("os.write(fds[0], b'nonsense')"), EPROTO, "nonsense");
    check_bad_fork(BY_HAND("[os.close(f) for f in fds]"), EPIPE, "given up");
    check_bad_fork(BY_HAND("os.write(fds[0], b'here\\n')"), ESRCH, "0 processes have come");
    check_bad_fork(BY_HAND(FORK("        B._keep_only(fds); os.chdir('/'); B._prctl(4, 1)\n")), EPERM, "CapPrm");
    check_bad_fork(BY_HAND(FORK("        B._keep_only(fds); B._drop_everything(); os.chdir('/')\n")), EPERM,
                   "Seccomp_filters");
    check_bad_fork(BY_HAND(FORK("        B._become_new(fds, parent); os.open('/etc/passwd', os.O_RDONLY)\n")), EPERM,
                   "holds descriptor");
    check_bad_fork(BY_HAND(FORK("        B._become_new(fds, parent); os.dup2(1, 2)\n")), EPERM, "descriptor 2");
    check_bad_fork(BY_HAND(FORK("        B._become_new(fds, parent); os.chdir('/tmp')\n")), EPERM, "cwd");
    check_bad_fork(BY_HAND(FORK("        import mmap; m = mmap.mmap(-1, 4096); B._become_new(fds, parent)\n")), EPERM,
                   "shares memory");
    check_bad_fork(BY_HAND(FORK("        import mmap; fd = os.memfd_create('m'); os.ftruncate(fd, 4096)\n"
                                "        m = mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ); os.close(fd)\n"
                                "        B._become_new(fds, parent)\n")),
                   EPERM, "shares memory");
    check_bad_fork(BY_HAND(FORK("        B._become_new(fds, parent); B._prctl(4, 0)\n")), ENOENT, "status of the fork");
    check_bad_fork(BY_HAND(FORK("        B._become_new(fds, parent)\n"
                                "        if os.fork() == 0: os.close(3); signal.pause()\n")),
                   EEXIST, "2 processes have come");
    check_bad_fork(BY_HAND("again = spaces - 1\n"
                           "if os.fork() == 0:\n"
                           "    for f in fds[4 + spaces:]: os.write(f, b'0')\n"
                           "    for f in fds[4:5] + fds[6:4 + spaces]: B._libc.setns(f, 0)\n"
                           "    parent = os.pidfd_open(os.getpid())\n"
                           "    if os.fork() != 0: os._exit(0)\n"
                           "    B._become_new(fds, parent); os.write(3, b'here\\n')"),
                   EPERM, "");
}

/*
 * Dead before anybody had looked at it, or while somebody did: nothing of the attempt has run. Where both looks were
 * faster than its end, it was good when it was told to go, and is an attempt that ended: so it is tried again.
 */
static void a_fork_that_dies_unchecked_was_no_attempt(void **state)
{
    bool dead = false;
    (void)state;
    for (int i = 0; i < 20 && !dead; i++) {
        struct server s;
        struct attempt a;
        start_server(&s, BY_HAND(FORK("        B._become_new(fds, parent); os.write(3, b'here\\n'); os._exit(0)\n")));
        must_be_warm(&s);
        run_attempt(&s, &a, 1, "");
        dead = a.exec.result.end == BH_EXEC_NOT_STARTED;
        if (!dead)
            check_end(&a, BH_EXEC_EXITED, 0);
        end_attempt(&a);
        end_server(&s);
    }
    T_TRUE(dead);
}

/* What only may be read for ever is shared by every program: the cache of the C library's conversions. The helper makes
 * what is small private, the same bytes; what is large stays, and is looked at. */
static void a_file_that_is_mapped_for_reading_may_stay(void **state)
{
    struct server s;
    struct attempt a;
    (void)state;
    start_server(&s, PRELUDE "import mmap\n"
                             "with open('/workspace/large', 'wb') as f: f.write(b'import' * 500000)\n"
                             "def share(name):\n"
                             "    with open('/workspace/' + name, 'rb') as f:\n"
                             "        return mmap.mmap(f.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)\n"
                             "m = [share('server.py'), share('large')]\n"
                             "attempt = bulkhead.warm()\n"
                             "maps = [l.split() for l in open('/proc/self/maps')]\n"
                             "print([bytes(x[:6]) for x in m], [l[1] for l in maps if l[-1].endswith('server.py')],\n"
                             "      [l[1] for l in maps if l[1][3] == 's' and not l[-1].endswith('large')])\n");
    must_be_warm(&s);
    run_attempt(&s, &a, 1, "");
    check_end(&a, BH_EXEC_EXITED, 0);
    T_STR(a.exec.out.data, "[b'import', b'import'] ['r--p'] []\n");
    end_attempt(&a);
    end_server(&s);
}

/* A child that borrows memory (vfork) borrows what its parent has borrowed: whoever is killed meanwhile leaves the
 * fork, which is alone in its box, and one outside who has the same memory. */
#define KIN                                                                                                  \
    "stacks = [ctypes.create_string_buffer(1 << 18) for _ in range(2)]\n"                                    \
    "fn = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)\n"                                                 \
    "def clone(f, flags, i=0):\n"                                                                            \
    "    return B._libc.clone(f, ctypes.c_void_p(ctypes.addressof(stacks[i]) + (1 << 18)), flags | 17, 0)\n" \
    "r, w = os.pipe()\n"

static void a_fork_that_shares_with_who_stays_is_refused(void **state)
{
    (void)state;
    check_bad_fork(BY_HAND(KIN "def gone(_): os._exit(0)\n"
                               "gone = fn(gone)\n"
                               "denied = [clone(gone, flags) for flags in (0x100, 0x200, 0x400)] == [-1] * 3\n"
                               "os.write(fds[0], b'nonsense' if denied else b'here\\n')"),
                   EPROTO, "nonsense");
    check_bad_fork(BY_HAND(KIN "def inner(_):\n"
                               "    os.write(w, b'x'); B._become_new(fds, parent); os.write(3, b'here\\n')\n"
                               "    B._hear(); print('ran'); sys.stdout.flush(); os._exit(0)\n"
                               "def outer(_):\n"
                               "    global parent\n"
                               "    os.write(w, b'%8d' % os.getpid())\n"
                               "    parent = B._enter(fds, spaces)\n"
                               "    clone(inner, 0x4100, 1)\n"
                               "inner, outer = fn(inner), fn(outer)\n"
                               "stays = os.fork()\n"
                               "if stays == 0: clone(outer, 0x4100)\n"
                               "goes = int(os.read(r, 8)); os.read(r, 1)\n"
                               "os.kill(stays, signal.SIGSTOP); os.kill(goes, signal.SIGKILL)"),
                   EPERM, "it shares memory");
}

static void a_fork_that_its_server_keeps_is_not_run(void **state)
{
    (void)state;
    check_bad_fork(
        BY_HAND("if os.fork() == 0:\n"
                "    parent = B._enter(fds, spaces)\n"
                "    if os.fork() != 0: signal.pause()\n"
                "    B._keep_only(fds); B._drop_everything(); os.chdir('/'); B._fence(); B._give_up_setns()\n"
                "    os.write(3, b'here\\n'); B._hear(); signal.pause()"),
        ECHILD, "has not let go");
}

static void a_dead_server_ends_nobody_else(void **state)
{
    struct server s;
    struct attempt a, b;
    (void)state;
    start_server(&s, SERVER);
    must_be_warm(&s);
    start_attempt(&s, &a, 1, "print('begun'); sys.stdout.flush(); sys.stdin.read(); print('over')");
    start_attempt(&s, &b, 2,
                  "print('begun'); sys.stdout.flush()\n"
                  "signal.pause()");
    while (a.exec.out.len == 0 && !a.exec.done)
        kit_drain(&kit, &a.exec);
    while (b.exec.out.len == 0 && !b.exec.done)
        kit_drain(&kit, &b.exec);
    kit.boxes->ops->kill(s.exec.exec, SIGKILL);
    kit_finish(&s.box, &s.exec);
    T_INT(s.exec.result.end, BH_EXEC_SIGNALED);
    T_INT(s.exec.result.status, SIGKILL);
    kit_finish(&a.box, &a.exec);
    check_end(&a, BH_EXEC_EXITED, 0);
    T_STR(a.exec.out.data, "begun\nover\n");
    T_TRUE(!b.exec.done);
    /* No more of them can be had, which is said at once. */
    struct attempt late = {.exec.spec.fork = true};
    late.box = b.box;
    const char *const argv[] = {"run", NULL};
    late.exec.spec.argv = argv;
    kit_start(&late.box, &late.exec);
    kit_finish(&late.box, &late.exec);
    T_INT(late.exec.result.end, BH_EXEC_NOT_STARTED);
    T_INT(late.exec.result.status, ESRCH);
    kit_exec_fini(&late.exec);
    kit.boxes->ops->kill(b.exec.exec, SIGTERM);
    kit_finish(&b.box, &b.exec);
    check_end(&b, BH_EXEC_SIGNALED, SIGTERM);
    end_attempt(&a);
    end_attempt(&b);
    kit_exec_fini(&s.exec);
    T_INT(kit_destroy(&s.box, false), 0);
}

static void boxes_die_with_that_of_their_server(void **state)
{
    struct server s;
    struct attempt a;
    (void)state;
    start_server(&s, SERVER);
    must_be_warm(&s);
    start_attempt(&s, &a, 1, "signal.pause()");
    T_INT(kit_destroy(&s.box, false), 0);
    kit_finish(&s.box, &s.exec);
    T_INT(s.exec.result.end, BH_EXEC_BOX_LOST);
    kit_finish(&a.box, &a.exec);
    T_INT(a.exec.result.end, BH_EXEC_BOX_LOST);
    kit_wait(&kit, &a.box.lost);
    kit_exec_fini(&s.exec);
    end_attempt(&a);
}

/* Whoever is left in an attempt's box is dead when its end is told, and nothing can be written then. */
static void what_an_attempt_leaves_dies(void **state)
{
    struct server s;
    struct attempt a;
    struct kit_exec check = {0};
    (void)state;
    start_server(&s, SERVER);
    must_be_warm(&s);
    run_attempt(&s, &a, 1,
                "if os.fork() == 0:\n"
                "    os.setsid()\n"
                "    while True: signal.pause()\n"
                "sys.exit(3)");
    check_end(&a, BH_EXEC_EXITED, 3);
    T_INT(kit_barrier(&a.box), 0);
    kit_sh(&a.box, &check, "touch /workspace/again && " KIT_PS); /* a check in the same box */
    T_INT(check.result.status, 0);
    T_STR(check.out.data, KIT_PS_ALONE);
    kit_exec_fini(&check);
    end_attempt(&a);
    end_server(&s);
}

/* Its server, which knows the box, may hold a file of it open: then nothing is collected from there. */
static void a_server_that_writes_into_an_attempt_is_noticed(void **state)
{
    struct server s;
    struct attempt a;
    (void)state;
    start_server(&s, BY_HAND("r, w = os.pipe()\n"
                             "if os.fork() == 0:\n"
                             "    if os.fork() == 0:\n"
                             "        for f in fds[4:6] + fds[7:4 + spaces]: B._libc.setns(f, 0)\n"
                             "        h = open('/workspace/out/forged', 'w'); os.write(w, b'x')\n"
                             "        while True: signal.pause()\n"
                             "    os._exit(0)\n"
                             "os.wait(); os.read(r, 1)\n" FORK("        B._become_new(fds, parent)\n")));
    must_be_warm(&s);
    run_attempt(&s, &a, 1, "");
    check_end(&a, BH_EXEC_EXITED, 0);
    T_INT(kit_barrier(&a.box), -BH_E_BUSY);
    end_attempt(&a);
    end_server(&s);
}

/* It may stop whoever is in its namespace: then the box is killed, and nobody waits for it. */
static void a_box_that_its_server_stops_is_lost(void **state)
{
    struct server s;
    struct attempt a;
    struct kit_box other;
    (void)state;
    start_server(&s, BY_HAND("os.kill(-1, signal.SIGSTOP); os.write(1, b'stopped')"));
    must_be_warm(&s);
    start_attempt(&s, &a, 1, "");
    while (s.exec.out.len == 0 && !a.exec.done)
        kit_drain(&kit, &s.exec);
    T_INT(kit_create(&kit, &other, NULL), 0); /* of no interest to anybody else */
    T_INT(kit_destroy(&other, false), 0);
    kit.boxes->ops->kill(a.exec.exec, SIGKILL);
    kit_finish(&a.box, &a.exec);
    T_INT(a.exec.result.end, BH_EXEC_BOX_LOST);
    end_attempt(&a);
    end_server(&s);
}

/* What the attempt to make a box beneath it comes to; "" for one that was made. */
static const char *try_beneath(struct server *s)
{
    static char message[512];
    const struct kit_how how = {.beneath = s->exec.exec};
    struct kit_box box;
    bool made = kit_create(&kit, &box, &how) == 0;
    (void)snprintf(message, sizeof(message), "%s", made ? "" : box.message);
    if (made)
        T_INT(kit_destroy(&box, false), 0);
    return message;
}

/* And whoever makes boxes: that is waited for once, not once for each. It has to be quick for it. */
static void a_server_that_delays_boxes_does_it_once(void **state)
{
    struct server s;
    struct attempt a;
    bool late = false;
    (void)state;
    start_server(&s, BY_HAND("if os.fork() == 0:\n"
                             "    os.kill(-1, signal.SIGSTOP); os.write(1, b'stopped')\n"
                             "    while True:\n"
                             "        try: os.kill(-1, signal.SIGSTOP)\n"
                             "        except OSError: pass\n"));
    must_be_warm(&s);
    start_attempt(&s, &a, 1, "");
    while (s.exec.out.len == 0 && !a.exec.done)
        kit_drain(&kit, &s.exec);
    /* Until it hits the moment; one that it has stopped later is lost after some seconds. */
    for (int i = 0, lost = 0; i < 100 && lost == 0 && !late; i++) {
        const char *message = try_beneath(&s);
        late = strstr(message, "make a box beneath a fork server") != NULL;
        lost += !late && *message;
    }
    for (int i = 0; i < 20 && late; i++) {
        const char *message = try_beneath(&s);
        if (!strstr(message, "late before"))
            fail_msg("%d: %s", i, message);
    }
    T_INT(kit_destroy(&a.box, false), 0);
    kit_finish(&a.box, &a.exec);
    kit_exec_fini(&a.exec);
    end_server(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_attempt_runs),
        cmocka_unit_test(five_at_once_are_told_apart),
        cmocka_unit_test(an_attempt_has_nothing_left),
        cmocka_unit_test(an_attempt_is_behind_the_second_wall),
        cmocka_unit_test(a_process_that_does_not_cooperate_is_a_command),
        cmocka_unit_test(a_server_that_is_none_is_refused),
        cmocka_unit_test(the_helper_refuses_threads),
        cmocka_unit_test(forks_that_are_not_what_they_must_be),
        cmocka_unit_test(a_fork_that_dies_unchecked_was_no_attempt),
        cmocka_unit_test(a_file_that_is_mapped_for_reading_may_stay),
        cmocka_unit_test(a_fork_that_shares_with_who_stays_is_refused),
        cmocka_unit_test(a_fork_that_its_server_keeps_is_not_run),
        cmocka_unit_test(a_dead_server_ends_nobody_else),
        cmocka_unit_test(boxes_die_with_that_of_their_server),
        cmocka_unit_test(what_an_attempt_leaves_dies),
        cmocka_unit_test(a_server_that_writes_into_an_attempt_is_noticed),
        cmocka_unit_test(a_box_that_its_server_stops_is_lost),
        cmocka_unit_test(a_server_that_delays_boxes_does_it_once),
    };
    KIT_MAIN(tests);
}
