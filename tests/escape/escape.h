/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attempts to get out of a box. Each is a function that tries one thing and says whether it got through. It is run
 * inside a box, where it must not, and outside, as root, where it must: an attempt that fails there too proves nothing.
 * What it aims at is made outside by host.c and told in the file `targets`, so that both runs aim at the same.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct attempt {
    const char *name;
    const char *tries; /* what; it got through when the function returns true */
    bool (*fn)(void);
    const char *not_outside; /* why it is not run outside; NULL: it is */
    const char *may_lack;    /* what a host may be without, so that it fails outside as well; NULL: nothing */
    int apart;               /* CLONE_NEW*: made for the run outside, which would change the host otherwise */
    bool as_nobody;          /* outside it runs as an ordinary user */
    bool bomb;               /* for a box with limits of its own */
    bool sibling;            /* about another agent of the same box */
};

/* NULL-named at the end. */
extern const struct attempt attempts_kernel[], attempts_process[], attempts_mount[], attempts_files[], attempts_net[],
    attempts_ipc[], attempts_privileges[], attempts_secrets[], attempts_bombs[], attempts_siblings[];

extern bool outside;

/* What was seen last; printed with the verdict. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* rc >= 0; else notes errno. */
bool tried(long rc, const char *what);
#define TRIED(call) tried((long)(call), #call)
/* From the file `targets`: "" where it has no such key. */
const char *target(const char *key);
long target_number(const char *key);

/* The process that an agent would like to have: inside the box's init, outside a child of ours. */
pid_t victim(void);
/* "/proc/VICTIM/name", static. */
const char *victim_proc(const char *name);
/* Whether the path opens with these flags; what is read is not looked at. */
bool opens(const char *path, int flags);
/* Whether something that is there says that it is the host's: its bytes hold this text. */
bool file_holds(const char *path, const char *text);
/* All of fd's bytes up to size - 1, terminated. */
size_t slurp(int fd, char *into, size_t size);
/* The beginning of all canaries, which stands in no program and no file of a box. */
const char *canary(void);

int host_main(int argc, char **argv);
