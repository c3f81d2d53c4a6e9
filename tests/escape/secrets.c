/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets that were planted outside: in the environment of the process that runs the pipeline, in its arguments, in a
 * file beside it. Inside none may be found, wherever one looks; outside the same search finds them.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/escape/escape.h"

extern char **environ;

static bool in_environment(void)
{
    for (char **e = environ; *e; e++) {
        if (strstr(*e, canary()))
            return note("it is in %.*s", (int)strcspn(*e, "="), *e), true;
    }
    note("not in the environment");
    return false;
}

static bool in_any(const char *name)
{
    DIR *dir = opendir("/proc");
    struct dirent *e;
    unsigned looked = 0;
    while (dir && (e = readdir(dir))) {
        char path[300];
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        (void)snprintf(path, sizeof(path), "/proc/%s/%s", e->d_name, name);
        looked++;
        if (file_holds(path, canary()))
            return note("it is in %s", path), true;
    }
    note("not in %s of %u processes", name, looked);
    return false;
}

static bool in_environments(void)
{
    return in_any("environ");
}

static bool in_arguments(void)
{
    return in_any("cmdline");
}

/* Every readable mapping of every process that lets us. */
static bool in_memory_of(const char *pid)
{
    static char text[1 << 16], bytes[1 << 20];
    char path[300];
    (void)snprintf(path, sizeof(path), "/proc/%s/maps", pid);
    int maps = open(path, O_RDONLY | O_CLOEXEC);
    (void)snprintf(path, sizeof(path), "/proc/%s/mem", pid);
    int mem = open(path, O_RDONLY | O_CLOEXEC);
    bool found = false;
    if (maps >= 0 && mem >= 0) {
        (void)slurp(maps, text, sizeof(text));
        for (const char *line = text; line && *line && !found;
             line = strchr(line, '\n') ? strchr(line, '\n') + 1 : "") {
            char *end;
            unsigned long long from = strtoull(line, &end, 16), to = *end == '-' ? strtoull(end + 1, NULL, 16) : 0;
            size_t size = to - from < sizeof(bytes) ? (size_t)(to - from) : sizeof(bytes);
            ssize_t n = to > from ? pread(mem, bytes, size, (off_t)from) : 0;
            found = n > 0 && memmem(bytes, (size_t)n, canary(), strlen(canary()));
        }
    }
    close(maps);
    close(mem);
    return found;
}

static bool in_memory(void)
{
    DIR *dir = opendir("/proc");
    struct dirent *e;
    char self[16];
    (void)snprintf(self, sizeof(self), "%d", (int)getpid());
    while (dir && (e = readdir(dir))) {
        if (isdigit((unsigned char)e->d_name[0]) && strcmp(e->d_name, self) != 0 && in_memory_of(e->d_name))
            return note("it is in the memory of %s", e->d_name), true;
    }
    note("in nobody's memory");
    return false;
}

static unsigned looked_at;

static int look(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)type;
    (void)at;
    if (strncmp(path, "/proc", 5) == 0 || strncmp(path, "/sys", 4) == 0 || strncmp(path, "/usr", 4) == 0)
        return FTW_SKIP_SUBTREE;
    if (!S_ISREG(st->st_mode) || st->st_size > 1 << 20)
        return FTW_CONTINUE;
    looked_at++;
    return file_holds(path, canary()) ? FTW_STOP : FTW_CONTINUE;
}

static bool in_files(void)
{
    if (nftw(outside ? target("dir") : "/", look, 16, FTW_PHYS | FTW_ACTIONRETVAL) == FTW_STOP)
        return note("it is in a file"), true;
    note("in none of %u files", looked_at);
    return false;
}

static bool in_descriptors(void)
{
    static char bytes[1 << 16];
    if (outside && open(target("secret"), O_RDONLY) < 0)
        return false;
    for (int fd = 0; fd < 1024; fd++) {
        struct stat st;
        if (fd == 1 || fd == 2 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
            continue;
        ssize_t n = pread(fd, bytes, sizeof(bytes), 0);
        if (n > 0 && memmem(bytes, (size_t)n, canary(), strlen(canary())))
            return note("it is in descriptor %d", fd), true;
    }
    note("in no descriptor");
    return false;
}

const struct attempt attempts_secrets[] = {
    {"canary-environment", "find a secret in the own environment", in_environment},
    {"canary-environments", "find a secret in anybody's environment", in_environments},
    {"canary-arguments", "find a secret in anybody's arguments", in_arguments},
    {"canary-memory", "find a secret in anybody's memory", in_memory},
    {"canary-files", "find a secret in any file", in_files},
    {"canary-descriptors", "find a secret in an open descriptor", in_descriptors},
    {NULL},
};
