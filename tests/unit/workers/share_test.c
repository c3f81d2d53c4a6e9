/* SPDX-License-Identifier: Apache-2.0 */
/* What processes have taken, listen on and hold, asked of a child that has some of each, and children of its own. */
#include "workers/box/share.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "tests/support/t.h"

#define PAGES (8 << 20)

struct scene {
    char *dir, *written, *read;
    pid_t pid; /* as an exec's PID 1: what is below it counts */
    uint16_t port;
    int told;
};

static uint16_t listen_somewhere(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, 1) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) < 0)
        _exit(1);
    return ntohs(at.sin_port);
}

/* Holds memory, two files and a port, then waits to be killed. */
static void work(const struct scene *s, int tell)
{
    int out = open(s->written, O_WRONLY | O_CREAT | O_CLOEXEC, 0644), in = open(s->read, O_RDONLY | O_CLOEXEC);
    char *memory = malloc(PAGES);
    uint16_t port = listen_somewhere();
    if (out < 0 || in < 0 || !memory)
        _exit(1);
    memset(memory, 1, PAGES);
    if (write(out, memory, 1 << 20) != 1 << 20 || write(tell, &port, sizeof(port)) != (ssize_t)sizeof(port))
        _exit(1);
    for (;;)
        pause();
}

static int setup(void **state)
{
    struct scene *s = bh_alloc(sizeof(*s));
    int tell[2];
    *s = (struct scene){.dir = t_tmpdir()};
    s->written = bh_asprintf("%s/written", s->dir);
    s->read = bh_asprintf("%s/read", s->dir);
    bh_close(open(s->read, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    T_INT(pipe(tell), 0);
    s->pid = fork();
    if (s->pid == 0) {
        if (fork() == 0)
            work(s, tell[1]);
        for (;;)
            pause();
    }
    T_INT(read(tell[0], &s->port, sizeof(s->port)), sizeof(s->port));
    bh_close(tell[0]);
    bh_close(tell[1]);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    struct scene *s = *state;
    BH_CLEANUP_FREE char *children = bh_asprintf("/proc/%d/task/%d/children", (int)s->pid, (int)s->pid);
    BH_CLEANUP_FD int fd = open(children, O_RDONLY | O_CLOEXEC);
    char text[32] = "";
    if (read(fd, text, sizeof(text) - 1) > 0)
        kill((pid_t)strtol(text, NULL, 10), SIGKILL);
    kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
    t_tmpdir_free(s->dir);
    bh_free(s->written);
    bh_free(s->read);
    bh_free(s);
    return 0;
}

static void what_is_below_is_added_up(void **state)
{
    const struct scene *s = *state;
    struct bh_box_share share = {.tag = 7,
                                 .cpu_ms = 4711,
                                 .memory_bytes = -1,
                                 .memory_peak_bytes = -1,
                                 .written_bytes = -1,
                                 .waited_ms = -1,
                                 .processes = -1};
    bh_share_of_processes(s->pid, &share);
    T_INT(share.tag, 7);
    T_INT(share.cpu_ms, 4711); /* was known */
    T_INT(share.processes, 1); /* the first is ours */
    T_TRUE(share.memory_bytes >= PAGES);
    T_TRUE(share.written_bytes < 0 || share.written_bytes >= 1 << 20); /* where it may be read */
    T_TRUE(share.waited_ms >= -1);
    T_INT(share.memory_peak_bytes, -1);
}

static void who_is_gone_has_nothing(void **state)
{
    struct bh_box_share share = {.cpu_ms = -1, .memory_bytes = -1, .written_bytes = -1, .processes = -1};
    (void)state;
    bh_share_of_processes(999999999, &share);
    T_INT(share.cpu_ms, -1);
    T_INT(share.processes, -1);
    T_TRUE(!bh_share_holds(999999999, 1, 1));
}

static void a_port_is_found_with_its_holder(void **state)
{
    const struct scene *s = *state;
    struct bh_listeners l;
    struct bh_box_share share = {.n_ports = 0}, ours = {.n_ports = 0};
    bool listed = false;
    bh_listeners_read(s->pid, &l);
    for (size_t i = 0; i < l.n; i++)
        listed = listed || l.of[i].port == s->port;
    T_TRUE(listed || l.n == BH_LISTENERS_MAX);
    bh_share_ports(s->pid, &l, &share);
    T_INT(share.n_ports, listed ? 1 : 0);
    T_TRUE(!listed || share.ports[0] == s->port);
    bh_share_ports(s->pid, &(struct bh_listeners){.n = 0}, &ours);
    T_INT(ours.n_ports, 0);
}

static void who_may_write_holds(void **state)
{
    const struct scene *s = *state;
    struct stat written, only_read;
    T_INT(stat(s->written, &written), 0);
    T_INT(stat(s->read, &only_read), 0);
    T_TRUE(bh_share_holds(s->pid, written.st_dev, written.st_ino));
    T_TRUE(!bh_share_holds(s->pid, only_read.st_dev, only_read.st_ino));
    T_TRUE(!bh_share_holds(s->pid, written.st_dev + 1, written.st_ino));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_below_is_added_up),
        TEST(a_port_is_found_with_its_holder),
        TEST(who_may_write_holds),
        cmocka_unit_test(who_is_gone_has_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
