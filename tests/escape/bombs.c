/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking all there is of something. Run in a box with limits; each stops by itself far above any of them, and has got
 * through when it gets that far.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/escape/escape.h"

#define HOST "the host has no such limit, and others on it"
#define PROCESSES 2000
#define MEMORY (UINT64_C(1) << 30)
#define FILES 20000
#define BYTES (UINT64_C(1) << 30)

static bool forks(void)
{
    int made_children = 0;
    for (pid_t pid = 0; made_children < PROCESSES; made_children++) {
        pid = fork();
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                (void)pause();
        }
        if (pid < 0)
            break;
    }
    bool all = made_children == PROCESSES;
    note("%d processes: %s", made_children, all ? "no end" : strerror(errno));
    (void)signal(SIGTERM, SIG_IGN);
    (void)kill(0, SIGTERM);
    return all;
}

static bool grows(void)
{
    uint64_t have = 0;
    for (const size_t step = 8 << 20; have < MEMORY; have += step) {
        char *at = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            break;
        memset(at, 1, step);
    }
    note("%llu bytes", (unsigned long long)have);
    return have >= MEMORY;
}

static bool opens_files(void)
{
    int n = 0;
    while (n < 70000 && open("/dev/null", O_RDONLY) >= 0)
        n++;
    note("%d descriptors: %s", n, strerror(errno));
    return n == 70000;
}

static bool makes_files(void)
{
    int n = 0;
    (void)mkdir("many", 0755);
    for (; n < FILES; n++) {
        char path[32];
        (void)snprintf(path, sizeof(path), "many/%d", n);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0)
            break;
        close(fd);
    }
    note("%d files: %s", n, strerror(errno));
    return n == FILES;
}

static bool fills_disk(void)
{
    static char bytes[1 << 20];
    uint64_t have = 0;
    (void)signal(SIGXFSZ, SIG_IGN);
    for (int file = 0; file < 8 && have < BYTES; file++) {
        char path[32];
        (void)snprintf(path, sizeof(path), "big%d", file);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        for (int i = 0; i < 128 && write(fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes); i++)
            have += sizeof(bytes);
        close(fd);
    }
    note("%llu bytes: %s", (unsigned long long)have, strerror(errno));
    return have >= BYTES;
}

static bool fills_shared_memory(void)
{
    static char bytes[1 << 20];
    uint64_t have = 0;
    int fd = open("/dev/shm/big", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    while (have < BYTES && write(fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes))
        have += sizeof(bytes);
    note("%llu bytes: %s", (unsigned long long)have, strerror(errno));
    return have >= BYTES;
}

static bool many_in_shared_memory(void)
{
    int n = 0;
    for (; n < 70000; n++) {
        char path[32];
        (void)snprintf(path, sizeof(path), "/dev/shm/n%d", n);
        if (mknod(path, S_IFREG | 0644, 0) < 0)
            break;
    }
    note("%d files: %s", n, strerror(errno));
    return n == 70000;
}

static bool opens_terminals(void)
{
    int n = 0;
    while (n < 900 && posix_openpt(O_RDWR | O_NOCTTY) >= 0)
        n++;
    note("%d terminals: %s", n, strerror(errno));
    return n == 900;
}

const struct attempt attempts_bombs[] = {
    {"bomb-processes", "start processes without end", forks, HOST, .bomb = true},
    {"bomb-memory", "take memory without end", grows, HOST, .bomb = true},
    {"bomb-descriptors", "open files without end", opens_files, HOST, .bomb = true},
    {"bomb-inodes", "make files without end", makes_files, HOST, .bomb = true},
    {"bomb-disk", "write without end", fills_disk, HOST, .bomb = true},
    {"bomb-shared-memory", "write to memory without end", fills_shared_memory, HOST, .bomb = true},
    {"bomb-shared-files", "make files in memory without end", many_in_shared_memory, HOST, .bomb = true},
    {"bomb-terminals", "open terminals without end", opens_terminals, HOST, .bomb = true},
    {NULL},
};
