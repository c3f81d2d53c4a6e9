/* SPDX-License-Identifier: Apache-2.0 */
/* A process is found by number, start and boot together, and by nothing less. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/process.h"
#include "tests/support/t.h"

static char boot[BH_PROCESS_BOOT];

static pid_t sleeper(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        for (;;)
            (void)pause();
    }
    return pid;
}

static void knows_this_boot(void **state)
{
    (void)state;
    char again[BH_PROCESS_BOOT];
    bh_process_boot(boot);
    bh_process_boot(again);
    T_STR(boot, again);
    T_INT(strlen(boot), 36);
}

static void reads_the_start_of_a_process(void **state)
{
    (void)state;
    char start[BH_PROCESS_START], again[BH_PROCESS_START];
    T_INT(bh_process_start(getpid(), start), 0);
    T_INT(bh_process_start(getpid(), again), 0);
    T_STR(start, again);
    T_TRUE(strspn(start, "0123456789") == strlen(start) && start[0]);
    T_INT(bh_process_start(999999999, start), -1);
    T_INT(errno, ENOENT);
}

static void opens_the_one_that_is_meant(void **state)
{
    (void)state;
    char start[BH_PROCESS_START];
    pid_t pid = sleeper();
    bh_process_boot(boot);
    T_INT(bh_process_start(pid, start), 0);
    BH_CLEANUP_FD int fd = bh_process_open(pid, start, boot);
    T_TRUE(fd >= 0);
    T_INT(syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0), 0);
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    T_INT(poll(&polled, 1, 10000), 1);
    T_INT(waitpid(pid, NULL, 0), pid);
    T_INT(bh_process_open(pid, start, boot), -1);
    T_INT(errno, ESRCH);
}

static void opens_no_other(void **state)
{
    (void)state;
    char start[BH_PROCESS_START];
    bh_process_boot(boot);
    T_INT(bh_process_start(getpid(), start), 0);
    const struct {
        int64_t pid;
        const char *start, *boot;
    } others[] = {
        {getpid(), "1", boot},    {getpid(), "", boot},
        {getpid(), start, "-"},   {getpid(), start, ""},
        {0, start, boot},         {-1, start, boot},
        {INT64_MAX, start, boot}, {getpid(), start, "00000000-0000-0000-0000-000000000000"},
        {999999999, start, boot},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(others); i++) {
        errno = 0;
        T_INT(bh_process_open(others[i].pid, others[i].start, others[i].boot), -1);
        T_INT(errno, ESRCH);
    }
}

/* A parent that was killed between the fork and the child's first call: the signal never comes. */
static void ends_where_its_parent_is_dead_already(void **state)
{
    (void)state;
    int status;
    pid_t dead = fork();
    if (dead == 0)
        _exit(0);
    T_INT(waitpid(dead, NULL, 0), dead);
    pid_t pid = fork();
    if (pid == 0) {
        bh_process_die_with(dead);
        _exit(0);
    }
    T_INT(waitpid(pid, &status, 0), pid);
    T_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

static void dies_with_its_parent(void **state)
{
    (void)state;
    int ends[2];
    char c;
    T_INT(pipe(ends), 0);
    pid_t parent = fork();
    if (parent == 0) {
        pid_t us = getpid();
        if (fork() == 0) {
            bh_process_die_with(us);
            (void)!write(ends[1], "x", 1);
        }
        for (;;)
            (void)pause();
    }
    bh_close(ends[1]);
    T_INT(read(ends[0], &c, 1), 1);
    T_INT(kill(parent, SIGKILL), 0);
    T_INT(waitpid(parent, NULL, 0), parent);
    T_INT(read(ends[0], &c, 1), 0); /* nobody holds the pipe any more */
    bh_close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_this_boot),
        cmocka_unit_test(reads_the_start_of_a_process),
        cmocka_unit_test(opens_the_one_that_is_meant),
        cmocka_unit_test(opens_no_other),
        cmocka_unit_test(ends_where_its_parent_is_dead_already),
        cmocka_unit_test(dies_with_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
