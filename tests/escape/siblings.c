/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another agent of the same box. It is `escape inside sibling-victim`: it lies in wait, with a secret in its
 * environment and its prompt, until the others say that they are through, and tells whether it was harmed.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/escape/escape.h"

#define ALONE "outside nobody stands apart from anybody"

static bool harmed;

static void on_signal(int sig)
{
    (void)sig;
    harmed = true;
}

/* Until a file of this name appears in the workspace. */
static void wait_for(const char *name)
{
    char events[4096];
    int fd = inotify_init1(IN_CLOEXEC);
    if (fd < 0 || inotify_add_watch(fd, ".", IN_CREATE | IN_MOVED_TO) < 0)
        exit(2);
    while (access(name, F_OK) < 0)
        (void)!read(fd, events, sizeof(events));
    close(fd);
}

static bool is_victim_harmed(void)
{
    static const int signals[] = {SIGTERM, SIGHUP, SIGINT, SIGUSR1, SIGUSR2, SIGCONT, SIGALRM};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        (void)signal(signals[i], on_signal);
    int ready = open("sibling-ready", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    dprintf(ready, "%d\n", (int)getpid());
    wait_for("sibling-over");
    note(harmed ? "a signal came" : "nothing came");
    return harmed || access("in/data", F_OK) < 0 || !file_holds("prompt.md", "mine alone");
}

static void wait_for_victim(void)
{
    wait_for("sibling-ready");
}

/* Processes that are not of our own session. */
static bool sees_others(void)
{
    DIR *dir = opendir("/proc");
    struct dirent *e;
    wait_for_victim();
    while (dir && (e = readdir(dir))) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (isdigit((unsigned char)e->d_name[0]) && getsid(pid) != getsid(0))
            return note("there is a process %d of another session", (int)pid), true;
    }
    note("nobody else is in /proc");
    return false;
}

static bool signals_all(void)
{
    wait_for_victim();
    (void)signal(SIGUSR1, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
    (void)kill(-1, SIGUSR1);
    (void)kill(-1, SIGTERM);
    for (pid_t pid = 2; pid < 400; pid++) {
        if (pid != getpid() && pid != getppid())
            (void)kill(pid, SIGTERM);
    }
    note("signals to all; the other agent says whether one came");
    return false;
}

static bool reads_prompt(void)
{
    wait_for_victim();
    return file_holds("prompt.md", "mine alone");
}

static bool reads_inputs(void)
{
    wait_for_victim();
    return opens("in/data", O_RDONLY);
}

static bool reads_environment(void)
{
    wait_for_victim();
    DIR *dir = opendir("/proc");
    struct dirent *e;
    while (dir && (e = readdir(dir))) {
        char path[300];
        (void)snprintf(path, sizeof(path), "/proc/%s/environ", e->d_name);
        if (isdigit((unsigned char)e->d_name[0]) && file_holds(path, "sibling-secret"))
            return note("it is in %s", path), true;
    }
    note("in nobody's environment");
    return false;
}

static bool moves_own_files(void)
{
    wait_for_victim();
    bool moved =
        TRIED(rename("prompt.md", "prompt.old")) || TRIED(unlink("prompt.md")) || TRIED(rename("in", "in.old"));
    return moved;
}

const struct attempt attempts_siblings[] = {
    {"sibling-victim", "(the other agent)", is_victim_harmed, ALONE, .sibling = true},
    {"sibling-processes", "see another agent's processes", sees_others, ALONE, .sibling = true},
    {"sibling-signals", "signal another agent's processes", signals_all, ALONE, .sibling = true},
    {"sibling-prompt", "read another agent's prompt", reads_prompt, ALONE, .sibling = true},
    {"sibling-inputs", "read another agent's inputs", reads_inputs, ALONE, .sibling = true},
    {"sibling-environment", "read another agent's environment", reads_environment, ALONE, .sibling = true},
    {"sibling-files", "move another agent's own files away", moves_own_files, ALONE, .sibling = true},
    {NULL},
};
