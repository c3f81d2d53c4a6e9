/* SPDX-License-Identifier: Apache-2.0 */
/*
 * escape list [KIND]: names of the attempts, one a line: KIND is plain, bomb, sibling or all.
 * escape inside NAME…: tries each; a line "NAME held: why" or "NAME REACHED: what" for each of them.
 * escape outside NAME…: the same for a host that has no walls, each in a process of its own: NAME works, NAME FAILED,
 *                       NAME skipped: why (not safe here), NAME absent: what this host is without.
 * escape about NAME: what it tries.
 * escape host DIR: what attempts aim at (host.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/escape/escape.h"

bool outside;
static char noted[512];
static int noted_errno;

static const struct attempt *const families[] = {
    attempts_kernel, attempts_process,    attempts_mount,   attempts_files, attempts_net,
    attempts_ipc,    attempts_privileges, attempts_secrets, attempts_bombs, attempts_siblings,
};
#define FAMILIES (sizeof(families) / sizeof(families[0]))

void note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(noted, sizeof(noted), format, args);
    va_end(args);
}

bool tried(long rc, const char *what)
{
    int why = errno;
    if (rc >= 0) {
        note("%s", what);
        return true;
    }
    noted_errno = why;
    note("%s: %s", what, strerror(why));
    errno = why;
    return false;
}

const char *target(const char *key)
{
    static char text[8192], values[4][1024];
    static unsigned turn;
    char *value = values[turn++ % 4];
    if (!text[0]) {
        int fd = open("targets", O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            fprintf(stderr, "escape: no file 'targets' here\n");
            exit(2);
        }
        (void)slurp(fd, text, sizeof(text));
        close(fd);
    }
    size_t len = strlen(key);
    value[0] = '\0';
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncmp(line, key, len) == 0 && line[len] == '=')
            (void)snprintf(value, sizeof(values[0]), "%.*s", (int)strcspn(line + len + 1, "\n"), line + len + 1);
    }
    return value;
}

long target_number(const char *key)
{
    return strtol(target(key), NULL, 10);
}

static pid_t made;

pid_t victim(void)
{
    if (!outside)
        return 1;
    if (made == 0) {
        made = fork();
        if (made == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                (void)pause();
        }
    }
    return made;
}

const char *victim_proc(const char *name)
{
    static char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)victim(), name);
    return path;
}

bool opens(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    bool yes = tried(fd, path);
    if (fd >= 0)
        close(fd);
    return yes;
}

size_t slurp(int fd, char *into, size_t size)
{
    size_t have = 0;
    for (ssize_t n = 1; n > 0 && have<size - 1; have += n> 0 ? (size_t)n : 0)
        n = read(fd, into + have, size - 1 - have);
    into[have] = '\0';
    return have;
}

bool file_holds(const char *path, const char *text)
{
    static char bytes[1 << 20];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (!tried(fd, path))
        return false;
    size_t n = slurp(fd, bytes, sizeof(bytes));
    close(fd);
    return memmem(bytes, n, text, strlen(text)) != NULL;
}

const char *canary(void)
{
    static char text[16];
    static const unsigned char hidden[] = {0x35, 0x3f, 0x7a, 0x34, 0x36, 0x39, 0x36, 0x25, 0x2e, 0x7a};
    for (size_t i = 0; i < sizeof(hidden); i++)
        text[i] = (char)(hidden[i] ^ 0x57);
    return text;
}

/* --- running --- */

static const struct attempt *find(const char *name)
{
    for (size_t f = 0; f < FAMILIES; f++) {
        for (const struct attempt *a = families[f]; a->name; a++) {
            if (strcmp(a->name, name) == 0)
                return a;
        }
    }
    fprintf(stderr, "escape: no attempt '%s'\n", name);
    exit(2);
}

static int list(const char *kind)
{
    bool all = strcmp(kind, "all") == 0;
    for (size_t f = 0; f < FAMILIES; f++) {
        for (const struct attempt *a = families[f]; a->name; a++) {
            const char *is = a->bomb ? "bomb" : a->sibling ? "sibling" : "plain";
            if (all || strcmp(kind, is) == 0)
                puts(a->name);
        }
    }
    return 0;
}

/* In a process of its own: an attempt may end it. */
static bool in_child(const struct attempt *a, void (*prepare)(const struct attempt *), char *line, size_t size,
                     int *ret_errno)
{
    int pair[2], status;
    struct {
        bool reached;
        int error;
        char text[512];
    } said = {.text = "it ended the process"};
    if (pipe2(pair, O_CLOEXEC) < 0)
        exit(2);
    pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        if (prepare)
            prepare(a);
        noted[0] = '\0';
        said.reached = a->fn();
        said.error = noted_errno;
        (void)snprintf(said.text, sizeof(said.text), "%s", noted);
        (void)!write(pair[1], &said, sizeof(said));
        if (made > 0)
            (void)kill(made, SIGKILL);
        _exit(0);
    }
    close(pair[1]);
    (void)!read(pair[0], &said, sizeof(said));
    close(pair[0]);
    (void)waitpid(pid, &status, 0);
    for (char *c = said.text; *c; c++)
        *c = (unsigned char)*c < ' ' ? ' ' : *c;
    (void)snprintf(line, size, "%s", said.text);
    *ret_errno = said.error;
    return said.reached;
}

static void inside(const struct attempt *a)
{
    char line[512];
    int error;
    if (a->sibling || a->bomb) { /* some signal whomever they can */
        (void)signal(SIGTERM, SIG_IGN);
        (void)signal(SIGUSR1, SIG_IGN);
    }
    bool reached = in_child(a, NULL, line, sizeof(line), &error);
    printf("%s %s: %s\n", a->name, reached ? "REACHED" : "held", line);
    (void)fflush(stdout);
}

static void stand_apart(const struct attempt *a)
{
    if (a->apart && unshare(a->apart) < 0) {
        perror("escape: unshare");
        _exit(2);
    }
    if (a->apart & CLONE_NEWNS)
        (void)mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    if (a->as_nobody && (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
        _exit(2);
    if (a->as_nobody)
        (void)prctl(PR_SET_DUMPABLE, 1);
}

/* What a kernel that has been built without something says. */
static bool is_absence(int error, const char *what)
{
    if (strncmp(what, "CAP_", 4) == 0 && (error == EPERM || error == EACCES))
        return true; /* root of a container */
    return error == ENOSYS || error == ENODEV || error == ENXIO || error == EAFNOSUPPORT || error == EPROTONOSUPPORT ||
           error == ESOCKTNOSUPPORT || error == EOPNOTSUPP || error == ENOENT || error == ENETUNREACH ||
           error == EINVAL;
}

static void try_outside(const struct attempt *a)
{
    char line[512];
    int error;
    if (a->not_outside) {
        printf("%s skipped: %s\n", a->name, a->not_outside);
        return;
    }
    bool reached = in_child(a, stand_apart, line, sizeof(line), &error);
    if (!reached && a->may_lack && is_absence(error, a->may_lack))
        printf("%s absent: %s (%s)\n", a->name, a->may_lack, line);
    else
        printf("%s %s: %s\n", a->name, reached ? "works" : "FAILED", line);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "list") == 0)
        return list(argc > 2 ? argv[2] : "all");
    if (argc >= 3 && strcmp(argv[1], "host") == 0)
        return host_main(argc - 1, argv + 1);
    if (argc == 3 && strcmp(argv[1], "about") == 0)
        return puts(find(argv[2])->tries) < 0;
    outside = argc > 2 && strcmp(argv[1], "outside") == 0;
    if (argc < 3 || (!outside && strcmp(argv[1], "inside") != 0)) {
        fprintf(stderr, "usage: escape list [KIND] | inside NAME… | outside NAME… | about NAME | host DIR\n");
        return 2;
    }
    for (int i = 2; i < argc; i++)
        (outside ? try_outside : inside)(find(argv[i]));
    return 0;
}
