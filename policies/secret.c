/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the values of secrets and lets go of them. May block. No value, and nothing that a file or command gave, is
 * ever put into a message, a buffer that grows, or memory that is not wiped.
 */
#include "policies/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

extern char **environ;

/* --- memory --- */

/* Pages of their own: locking and leaving out of dumps works on whole pages. */
void *bh_secret_alloc(size_t size)
{
    void *p = mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    (void)mlock(p, size); /* the limit may be small, and swap is the host's */
    (void)madvise(p, size, MADV_DONTDUMP);
    (void)madvise(p, size, MADV_WIPEONFORK);
    return p;
}

void bh_secret_free(void *p, size_t size)
{
    if (!p)
        return;
    int saved = errno;
    explicit_bzero(p, size);
    (void)munmap(p, size ? size : 1);
    errno = saved;
}

void bh_secret_fini(struct bh_secret *secret)
{
    bh_secret_free(secret->value, secret->len + 1);
    *secret = (struct bh_secret){0};
}

/* --- where a value may be --- */

/* Room for one byte more than may be, and the NUL. */
struct catch
{
    const struct bh_secret_ref *ref;
    char *data;
    size_t len;
};
enum { CATCH_SIZE = BH_SECRET_MAX + 2 };

static void catch_fini(struct catch *c)
{
    bh_secret_free(c->data, CATCH_SIZE);
}

static const char *kind_of(const struct bh_secret_ref *ref)
{
    return ref->env ? "variable" : ref->file ? "file" : "command";
}

static const char *where_of(const struct bh_secret_ref *ref)
{
    return ref->env ? ref->env : ref->file ? ref->file : ref->command[0];
}

static int fail(const struct bh_secret_ref *ref, int why, const char *what, struct bh_err **err)
{
    int rc = bh_err_set(err, BH_E_HOST, why, "secret '%s' cannot be had: %s '%s' %s", ref->name, kind_of(ref),
                        where_of(ref), what);
    if (ref->env)
        bh_err_hint(err, "set the variable %s where bulkhead is started", ref->env);
    else if (ref->file)
        bh_err_hint(err, "write the value to '%s', readable by whoever runs bulkhead", ref->file);
    else
        bh_err_hint(err, "run the command by hand: it must print the value and end with 0");
    return rc;
}

/* Reads what comes next. 1: goes on, 0: the end, -1 with errno (EFBIG: more than may be). */
static int catch_some(struct catch *c, int fd)
{
    ssize_t n = read(fd, c->data + c->len, BH_SECRET_MAX + 1 - c->len);
    if (n <= 0)
        return n < 0 && (errno == EINTR || errno == EAGAIN) ? 1 : (int)n;
    c->len += (size_t)n;
    if (c->len <= BH_SECRET_MAX)
        return 1;
    errno = EFBIG;
    return -1;
}

static int open_regular(const struct bh_secret_ref *ref, int *ret, struct bh_err **err)
{
    struct stat st;
    BH_CLEANUP_FD int fd = open(ref->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return fail(ref, errno, "cannot be read", err);
    if (!S_ISREG(st.st_mode))
        return fail(ref, 0, "is no regular file", err);
    *ret = BH_TAKE_FD(fd);
    return 0;
}

static int catch_env(struct catch *c, struct bh_err **err)
{
    const char *value = getenv(c->ref->env);
    if (!value)
        return fail(c->ref, 0, "is not set", err);
    size_t len = strlen(value);
    if (len > BH_SECRET_MAX)
        return fail(c->ref, 0, "holds more than 64 KiB", err);
    memcpy(c->data, value, len);
    c->len = len;
    return 0;
}

static int catch_file(struct catch *c, struct bh_err **err)
{
    BH_CLEANUP_FD int fd = -1;
    int rc = open_regular(c->ref, &fd, err);
    if (rc != 0)
        return rc;
    while ((rc = catch_some(c, fd)) > 0)
        ;
    if (rc < 0)
        return errno == EFBIG ? fail(c->ref, 0, "holds more than 64 KiB", err)
                              : fail(c->ref, errno, "cannot be read", err);
    if (c->len > 0 && c->data[c->len - 1] == '\n')
        c->len--;
    if (c->len > 0 && c->data[c->len - 1] == '\r')
        c->len--;
    return 0;
}

/* --- commands --- */

static char **argv_of(const struct bh_secret_ref *ref)
{
    char **argv = bh_calloc(ref->n_command + 1, sizeof(*argv));
    for (size_t i = 0; i < ref->n_command; i++)
        argv[i] = (char *)(uintptr_t)ref->command[i];
    return argv;
}

/* 0 and the process, or the errno. Nothing is inherited but the environment. */
static int start(const struct bh_secret_ref *ref, int out, pid_t *ret)
{
    BH_CLEANUP_FREE char **argv = argv_of(ref);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc != 0)
        return rc;
    rc = posix_spawnattr_init(&attr);
    if (rc == 0) {
        (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        (void)posix_spawn_file_actions_adddup2(&actions, out, 1);
        (void)posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
        (void)posix_spawnattr_setsigmask(&attr, &none);
        (void)posix_spawnattr_setsigdefault(&attr, &all);
        (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        rc = posix_spawnp(ret, argv[0], &actions, &attr, argv, environ);
        (void)posix_spawnattr_destroy(&attr);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return rc;
}

static int ms_left(struct bh_mono end)
{
    int64_t left = end.ns - bh_mono_now().ns;
    return left > 0 ? (int)(left / BH_NS_PER_MS) + 1 : 0;
}

/*
 * Reads until the process is dead: what holds its output behind it does not count. 0, or -1 with errno (ETIMEDOUT,
 * ECANCELED, EFBIG).
 */
static int catch_output(struct catch *c, int out, int pidfd)
{
    int give_up = c->ref->give_up_fd > 0 ? c->ref->give_up_fd : -1;
    struct bh_mono end = {bh_mono_now().ns + BH_SECRET_COMMAND_TIMEOUT_S * BH_NS_PER_S};
    struct pollfd fds[] = {
        {.fd = out, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}, {.fd = give_up, .events = POLLIN}};
    for (;;) {
        int n = poll(fds, BH_ARRAY_LEN(fds), ms_left(end));
        if (n < 0 && errno != EINTR)
            return -1;
        if (n == 0 || (n > 0 && fds[2].revents)) {
            errno = n == 0 ? ETIMEDOUT : ECANCELED;
            return -1;
        }
        if (n > 0 && fds[0].revents) {
            int rc = catch_some(c, out);
            if (rc < 0)
                return -1;
            if (rc == 0)
                fds[0].fd = -1;
        } else if (n > 0 && fds[1].revents) {
            return 0;
        }
    }
}

static int end_of(pid_t pid, bool kill_it)
{
    int status = -1;
    if (kill_it)
        (void)kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* What it wrote to standard error is nobody's: it may hold the value. */
static int fail_by(const struct bh_secret_ref *ref, int status, struct bh_err **err)
{
    BH_CLEANUP_FREE char *what = WIFEXITED(status) ? bh_asprintf("failed with exit status %d", WEXITSTATUS(status))
                                                   : bh_asprintf("was ended by signal %d", WTERMSIG(status));
    return fail(ref, 0, what, err);
}

static int catch_command(struct catch *c, struct bh_err **err)
{
    int out[2];
    pid_t pid;
    if (pipe2(out, O_CLOEXEC | O_NONBLOCK) < 0)
        return fail(c->ref, errno, "cannot be run", err);
    BH_CLEANUP_FD int read_end = out[0];
    int rc = bh_fd_set_nonblock(out[1], false) < 0 ? errno : start(c->ref, out[1], &pid);
    bh_close(out[1]);
    if (rc != 0)
        return fail(c->ref, rc, "cannot be run", err);
    BH_CLEANUP_FD int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    int saved = 0;
    if (pidfd < 0 || catch_output(c, read_end, pidfd) < 0)
        saved = errno;
    int status = end_of(pid, saved != 0);
    if (saved == ETIMEDOUT)
        return fail(c->ref, 0, "did not end within 30 seconds", err);
    if (saved == EFBIG)
        return fail(c->ref, 0, "wrote more than 64 KiB", err);
    if (saved != 0)
        return fail(c->ref, saved, "cannot be followed", err);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return fail_by(c->ref, status, err);
    while (c->len > 0 && (c->data[c->len - 1] == '\n' || c->data[c->len - 1] == '\r'))
        c->len--;
    return 0;
}

/* --- the value --- */

static int keep(const struct catch *c, struct bh_secret *ret, struct bh_err **err)
{
    if (c->len == 0)
        return fail(c->ref, 0, "gives nothing: the value is empty", err);
    if (memchr(c->data, 0, c->len))
        return fail(c->ref, 0, "gives a value with a NUL byte, which no variable and no header can hold", err);
    char *value = bh_secret_alloc(c->len + 1);
    if (!value)
        return fail(c->ref, errno, "gives a value for which there is no memory", err);
    memcpy(value, c->data, c->len);
    *ret = (struct bh_secret){.value = value, .len = c->len};
    return 0;
}

int bh_secret_resolve(const struct bh_secret_ref *ref, struct bh_secret *ret, struct bh_err **err)
{
    BH_ASSERT((ref->env != NULL) + (ref->file != NULL) + (ref->n_command > 0) == 1);
    struct catch c BH_CLEANUP(catch_fini) = {.ref = ref, .data = bh_secret_alloc(CATCH_SIZE)};
    if (!c.data)
        return bh_err_set(err, BH_E_NOMEM, errno, "secret '%s' cannot be had", ref->name);
    int rc = ref->env ? catch_env(&c, err) : ref->file ? catch_file(&c, err) : catch_command(&c, err);
    return rc == 0 ? keep(&c, ret, err) : rc;
}

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* As posix_spawnp looks for it. */
static bool is_in_path(const char *name)
{
    const char *path = getenv("PATH");
    for (const char *p = path ? path : "/bin:/usr/bin";; p++) {
        size_t len = strcspn(p, ":");
        BH_CLEANUP_FREE char *file = bh_asprintf("%.*s/%s", len ? (int)len : 1, len ? p : ".", name);
        if (is_program(file))
            return true;
        p += len;
        if (*p == '\0')
            return false;
    }
}

static int check_command(const struct bh_secret_ref *ref, struct bh_err **err)
{
    const char *name = ref->command[0];
    if (strchr(name, '/') ? is_program(name) : is_in_path(name))
        return 0;
    return fail(ref, 0, strchr(name, '/') ? "is no program that can be run" : "was not found in PATH", err);
}

int bh_secret_check(const struct bh_secret_ref *ref, struct bh_err **err)
{
    BH_CLEANUP_FD int fd = -1;
    if (ref->file)
        return open_regular(ref, &fd, err);
    if (ref->n_command > 0)
        return check_command(ref, err);
    const char *value = getenv(ref->env);
    return value && *value ? 0 : fail(ref, 0, value ? "gives nothing: the value is empty" : "is not set", err);
}
