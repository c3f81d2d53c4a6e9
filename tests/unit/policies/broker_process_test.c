/* SPDX-License-Identifier: Apache-2.0 */
/* bulkhead-broker as it is started: what it gives up, when it ends, and that it asks the host's own resolver. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "tests/support/t.h"
#include "tests/unit/policies/egress_rig.h"

enum { HIGH = 20 };

/* The program with `sock` as its descriptor 3, told that `parent` started it. */
static pid_t spawn(const char *mode, int sock, pid_t parent)
{
    posix_spawn_file_actions_t actions;
    char number[24];
    pid_t pid;
    const char *bin = getenv("BH_BIN");
    BH_CLEANUP_FREE char *program = bh_asprintf("%s/bulkhead-broker", bin ? bin : "build/dev/bin");
    (void)snprintf(number, sizeof(number), "%d", (int)parent);
    char *argv[] = {program, (char *)(uintptr_t)mode, number, NULL}, *envp[] = {NULL};
    BH_CLEANUP_FD int high = fcntl(sock, F_DUPFD_CLOEXEC, HIGH);
    T_INT(posix_spawn_file_actions_init(&actions), 0);
    if (sock >= 0)
        T_INT(posix_spawn_file_actions_adddup2(&actions, high, 3), 0);
    else
        T_INT(posix_spawn_file_actions_addclose(&actions, 3), 0);
    T_INT(posix_spawn(&pid, program, &actions, NULL, argv, envp), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static int status_of(pid_t pid)
{
    int status;
    T_TRUE(waitpid(pid, &status, 0) == pid);
    return status;
}

static int start(void **state)
{
    struct t_rig *rig = bh_alloc(sizeof(*rig));
    int pair[2];
    T_OK(bh_seqpacket_pair(pair, &err));
    rig->control = pair[0];
    rig->broker = spawn("egress", pair[1], getpid());
    bh_close(pair[1]);
    rig->upstream = -1;
    rig->upstream_port = 1;
    *state = rig;
    return 0;
}

static int stop(void **state)
{
    struct t_rig *rig = *state;
    bh_close(rig->control);
    T_INT(status_of(rig->broker), 0);
    bh_free(rig);
    return 0;
}

static void read_status(pid_t pid, struct bh_buf *ret)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("/proc/%d/status", (int)pid);
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    T_OK(bh_read_all(fd, 1 << 16, ret, &err));
}

#define HAS(buf, part)                                     \
    do {                                                   \
        if (!strstr((buf).data, part))                     \
            fail_msg("'%s' lacks '%s'", (buf).data, part); \
    } while (0)

static void gives_up_what_it_does_not_need(void **state)
{
    struct t_rig *rig = *state;
    BH_CLEANUP_BUF struct bh_buf status = BH_BUF_INIT;
    char environ_path[64];
    (void)t_rig_open(rig, 1, "up.example", NULL); /* so that it is at work */
    read_status(rig->broker, &status);
    HAS(status, "\nNoNewPrivs:\t1\n");
    HAS(status, "\nCapEff:\t0000000000000000\n");
    HAS(status, "\nCapPrm:\t0000000000000000\n");
    HAS(status, "\nCapInh:\t0000000000000000\n");
    HAS(status, "\nThreads:\t1\n");
    if (geteuid() != 0)
        return;
    (void)snprintf(environ_path, sizeof(environ_path), "/proc/%d/environ", (int)rig->broker);
    T_INT(access(environ_path, F_OK), 0);
    if (syscall(SYS_setresuid, -1, 65534, -1) != 0) /* a user namespace with one id */
        return;
    bool readable = open(environ_path, O_RDONLY | O_CLOEXEC) >= 0;
    T_INT(syscall(SYS_setresuid, -1, 0, -1), 0);
    HAS(status, "\nUid:\t65534\t65534\t65534\t65534\n");
    HAS(status, "\nGid:\t65534\t65534\t65534\t65534\n");
    assert_false(readable); /* not dumpable: its own user cannot look into it */
}

/* What stands in the host's hosts file, so that no name server is needed. */
static void asks_the_host_for_names(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "localhost", NULL);
    BH_CLEANUP_BUF struct bh_buf answer = BH_BUF_INIT;
    BH_CLEANUP_FD int client = t_rig_client(port);
    t_says(client, "CONNECT localhost:1 HTTP/1.1\r\nHost: x\r\n\r\n");
    t_hear_all(client, &answer);
    BH_CLEANUP_VAL struct bh_val *v = t_rig_hear(rig, "decision");
    if (bh_streq(bh_val_str_of(v, "address"), "127.0.0.1")) /* permitted by the rig: nothing listens there */
        HAS(answer, "(refused)");
    else
        HAS(answer, "(loopback)");
}

static void dies_with_who_started_it(void **state)
{
    int pair[2];
    char byte;
    (void)state;
    T_OK(bh_seqpacket_pair(pair, &err));
    pid_t middle = fork();
    T_TRUE(middle >= 0);
    if (middle == 0) {
        (void)spawn("egress", pair[1], getpid());
        bh_close(pair[1]);
        T_TRUE(bh_msg_send(pair[0], "{\"op\":\"close\",\"id\":1}", 21, NULL, 0) == 0);
        T_TRUE(recv(pair[0], &byte, 1, MSG_PEEK) == 1); /* it is at work */
        (void)raise(SIGKILL);
    }
    bh_close(pair[1]);
    T_TRUE(WIFSIGNALED(status_of(middle)));
    while (recv(pair[0], &byte, 1, 0) > 0) /* the end of the stream: the last holder of the other end is gone */
        continue;
    bh_close(pair[0]);
}

static void is_started_by_bulkhead_alone(void **state)
{
    int pair[2];
    (void)state;
    T_OK(bh_seqpacket_pair(pair, &err));
    T_INT(WEXITSTATUS(status_of(spawn("no-such-mode", pair[1], getpid()))), 2);
    T_INT(WEXITSTATUS(status_of(spawn("egress", -1, getpid()))), 2);
    T_INT(WEXITSTATUS(status_of(spawn("egress", pair[1], 1))), 1); /* who started it is gone */
    bh_close(pair[0]);
    bh_close(pair[1]);
}

static void what_it_does_not_understand_ends_it(void **state)
{
    static const char *const bad[] = {"{\"op\":\"open\"", "[]", "{\"id\":1}", "{\"op\":\"fly\",\"id\":1}"};
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++) {
        int pair[2];
        T_OK(bh_seqpacket_pair(pair, &err));
        pid_t pid = spawn("egress", pair[1], getpid());
        bh_close(pair[1]);
        T_TRUE(bh_msg_send(pair[0], bad[i], strlen(bad[i]), NULL, 0) == 0);
        T_TRUE(WIFEXITED(status_of(pid)));
        bh_close(pair[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gives_up_what_it_does_not_need, start, stop),
        cmocka_unit_test_setup_teardown(asks_the_host_for_names, start, stop),
        cmocka_unit_test(dies_with_who_started_it),
        cmocka_unit_test(is_started_by_bulkhead_alone),
        cmocka_unit_test(what_it_does_not_understand_ends_it),
    };
    (void)setenv("BULKHEAD_LOG", "off", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
