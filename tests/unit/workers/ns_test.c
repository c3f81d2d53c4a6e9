/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backend against a launcher and an init that are not to be trusted: both are played by a child of this test, which
 * does for each box what the box's key says. No box is made and nobody needs a privilege.
 */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"
#include "workers/box/box.h"
#include "workers/box/proto.h"

/* --- the other side --- */

static void send_bytes(int sock, const void *data, size_t len, const int *fds, size_t nfds)
{
    if (bh_msg_send(sock, data, len, fds, nfds) < 0)
        _exit(3);
}

static void send_report(int sock, struct bh_msg_report r, const int *fds, size_t nfds)
{
    send_bytes(sock, &r, sizeof(r), fds, nfds);
}

static int listen_on_loopback(int fd)
{
    const struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return bind(fd, (const struct sockaddr *)(const void *)&at, sizeof(at)) < 0 || listen(fd, 1) < 0 ? -1 : 0;
}

/* An answer to `ask`, as the role has it. */
static void misbehave(const char *role, int sock, uint32_t kind, uint64_t id)
{
    struct bh_msg_report good = {.kind = BH_MSG_ENDED, .end = BH_EXEC_EXITED, .status = 7, .id = id};
    int null[20];
    for (size_t i = 0; i < BH_ARRAY_LEN(null); i++)
        null[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (kind == BH_MSG_OPEN) {
        struct bh_msg_report opened = {.kind = BH_MSG_OPENED, .id = id};
        int fd = strcmp(role, "writable-fd") == 0 ? null[0] : open("/dev/null", O_RDONLY | O_CLOEXEC);
        send_report(sock, opened, &fd, 1);
    } else if (kind == BH_MSG_LISTEN) { /* a socket, and none that listens on the loopback */
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (strcmp(role, "good") == 0 && listen_on_loopback(fd) < 0)
            _exit(3);
        send_report(sock, (struct bh_msg_report){.kind = BH_MSG_LISTENING, .id = id}, &fd, 1);
    } else if (kind == BH_MSG_BARRIER) {
        send_report(sock, (struct bh_msg_report){.kind = BH_MSG_QUIET, .id = id, .status = EBUSY}, NULL, 0);
    } else if (strcmp(role, "short") == 0) {
        send_bytes(sock, &good, 8, NULL, 0);
    } else if (strcmp(role, "long") == 0) {
        char much[sizeof(good) + 1] = {0};
        memcpy(much, &good, sizeof(good));
        send_bytes(sock, much, sizeof(much), NULL, 0);
    } else if (strcmp(role, "descriptors") == 0) {
        send_report(sock, good, null, 3);
    } else if (strcmp(role, "wrong-id") == 0) {
        good.id = id + 1000;
        send_report(sock, good, NULL, 0);
    } else if (strcmp(role, "lost-by-word") == 0) {
        good.end = BH_EXEC_BOX_LOST;
        send_report(sock, good, NULL, 0);
    } else if (strcmp(role, "ready-again") == 0) {
        send_report(sock, (struct bh_msg_report){.kind = BH_MSG_READY}, NULL, 0);
    } else if (strcmp(role, "escape") == 0) {
        good.end = BH_EXEC_NOT_STARTED;
        bh_step_set(good.step, "\033]0;owned\a");
        send_report(sock, good, NULL, 0);
    } else if (strcmp(role, "eof") == 0) {
        _exit(0);
    } else {
        send_report(sock, good, NULL, 0);
        if (strcmp(role, "twice") == 0)
            send_report(sock, good, NULL, 0);
    }
}

static void be_an_init(const char *role, int sock, bool lends)
{
    static char msg[BH_PROTO_MAX] __attribute__((aligned(8)));
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (strcmp(role, "never-ready") == 0)
        _exit(0);
    if (strcmp(role, "fails") == 0)
        send_report(sock, (struct bh_msg_report){.kind = BH_MSG_FAILED, .status = ENOSPC, .step = "mount overlay root"},
                    NULL, 0);
    else
        send_report(sock, (struct bh_msg_report){.kind = BH_MSG_READY},
                    (int[]){open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)}, lends && strcmp(role, "lends-nothing") != 0);
    for (;;) {
        int fds[BH_MSG_MAX_FDS];
        size_t nfds;
        if (bh_msg_recv(sock, msg, sizeof(msg), fds, &nfds) <= 0)
            _exit(0);
        const struct bh_msg_ask *ask = (const void *)msg; /* kind and id lie alike in every request */
        const struct bh_msg_exec *exec = (const void *)msg;
        misbehave(role, sock, ask->kind, ask->kind == BH_MSG_EXEC ? exec->id : ask->id);
        for (size_t i = 0; i < nfds; i++)
            bh_close(fds[i]);
    }
}

static void make_box(int sock, const struct bh_msg_create *msg, const char *key, int control)
{
    struct bh_msg_created created = {.kind = BH_MSG_CREATED, .id = msg->id};
    if (strcmp(key, "refused") == 0 || strcmp(key, "no-more") == 0) {
        created.error = strcmp(key, "refused") == 0 ? EPERM : ENOSPC;
        bh_step_set(created.step, "clone into new namespaces");
        send_bytes(sock, &created, sizeof(created), NULL, 0);
        return;
    }
    if (strcmp(key, "launcher-dies") == 0)
        _exit(0);
    pid_t pid = fork();
    if (pid == 0)
        be_an_init(key, control, msg->flags & BH_CREATE_LEND);
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    created.pid = pid;
    send_bytes(sock, &created, sizeof(created), &pidfd, 1);
    bh_close(pidfd);
}

static void be_a_launcher(int sock)
{
    static char msg[BH_PROTO_MAX] __attribute__((aligned(8)));
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        int fds[BH_MSG_MAX_FDS];
        size_t nfds;
        ssize_t n = bh_msg_recv(sock, msg, sizeof(msg), fds, &nfds);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (n <= 0)
            _exit(0);
        const struct bh_msg_create *create = (const void *)msg;
        if (create->kind == BH_MSG_HELLO) {
            struct bh_msg_hello hello = {.kind = BH_MSG_HELLO, .version = BH_PROTO_VERSION, .mode = BH_IDS_SINGLE};
            hello.pid = getpid();
            send_bytes(sock, &hello, sizeof(hello), NULL, 0);
        } else if (create->kind == BH_MSG_CREATE) {
            struct bh_unpack u = {msg + sizeof(*create), msg + n};
            (void)bh_unpack_str(&u);
            make_box(sock, create, bh_unpack_str(&u), fds[0]);
        }
        for (size_t i = 0; i < nfds; i++)
            bh_close(fds[i]);
    }
}

/* --- our side --- */

static struct rig {
    char *dir, *run;
    struct event_base *loop;
    struct bh_boxes *boxes;
    pid_t launcher;
    struct bh_box *box;
    bool created, ended, lost, done, opened;
    unsigned n_lost;
    int code, fd, error;
    char message[256];
    struct bh_exec_result result;
} r;

static int set_up(void **state)
{
    int pair[2];
    (void)state;
    r = (struct rig){.dir = t_tmpdir(), .loop = event_base_new()};
    r.run = bh_asprintf("%s/runs/r", r.dir);
    T_OK(bh_mkdir_p(r.run, 0700, &err));
    T_OK(bh_seqpacket_pair(pair, &err));
    r.launcher = fork(); /* before the backend's thread */
    if (r.launcher == 0) {
        bh_close(pair[0]);
        be_a_launcher(pair[1]);
    }
    bh_close(pair[1]);
    T_OK(bh_boxes_ns_new(r.loop, pair[0], r.dir, &r.boxes, &err));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (r.boxes)
        r.boxes->ops->close(r.boxes);
    T_INT(waitpid(r.launcher, NULL, 0), r.launcher);
    event_base_free(r.loop);
    bh_free(r.run);
    t_tmpdir_free(r.dir);
    return 0;
}

static void wait_for(const bool *flag)
{
    while (!*flag)
        (void)event_base_loop(r.loop, EVLOOP_ONCE);
}

static void on_created(void *arg, struct bh_box *box, int code, const struct bh_err *err)
{
    (void)arg;
    r.box = box;
    r.code = code;
    (void)snprintf(r.message, sizeof(r.message), "%s", err ? bh_err_message(err) : "");
    r.created = true;
}

static void on_lost(void *arg)
{
    (void)arg;
    r.lost = true;
    r.n_lost++;
}

static int create(const char *key)
{
    struct bh_box_spec spec = {.run_dir = r.run, .key = key};
    r.created = false;
    r.boxes->ops->create(r.boxes, &spec, on_created, NULL, on_lost);
    T_TRUE(!r.created);
    wait_for(&r.created);
    return r.code;
}

static void on_done(void *arg, int code, const struct bh_err *err)
{
    (void)arg;
    r.code = code;
    (void)snprintf(r.message, sizeof(r.message), "%s", err ? bh_err_message(err) : "");
    r.done = true;
}

static void destroy(void)
{
    r.done = false;
    r.boxes->ops->destroy(r.box, false, on_done, NULL);
    wait_for(&r.done);
    T_INT(r.code, 0);
}

static void on_exec(void *arg, const struct bh_exec_result *result)
{
    (void)arg;
    T_TRUE(!r.ended);
    r.result = *result;
    r.ended = true;
}

static void start_exec(void)
{
    static const char *const argv[] = {"x", NULL}, *const env[] = {NULL};
    struct bh_exec_spec spec = {.argv = argv, .env = env, .cwd = "/", .stdin_fd = 0, .stdout_fd = 1, .stderr_fd = 2};
    r.ended = false;
    (void)r.boxes->ops->exec(r.box, &spec, on_exec, NULL);
    T_TRUE(!r.ended);
}

static bool there(const char *name)
{
    BH_CLEANUP_FREE char *path = bh_path_join(r.run, name);
    return access(path, F_OK) == 0;
}

static void believes_a_good_one(void **state)
{
    (void)state;
    T_INT(create("good"), 0);
    start_exec();
    wait_for(&r.ended);
    T_INT(r.result.end, BH_EXEC_EXITED);
    T_INT(r.result.status, 7);
    T_TRUE(there("boxes/good/deliver"));
    destroy();
    T_TRUE(!there("boxes/good"));
    T_INT(r.n_lost, 0);
}

/* The state is the role: whatever it says, the exec ends once, with BOX_LOST, and the box is dead. */
static void ends_a_box_that_speaks_nonsense(void **state)
{
    const char *role = *state;
    T_INT(create(role), 0);
    start_exec();
    wait_for(&r.lost);
    T_TRUE(r.ended);
    T_INT(r.result.end, BH_EXEC_BOX_LOST);
    T_INT(r.n_lost, 1);
    destroy();
    T_INT(r.n_lost, 1);
}

static void ends_a_box_that_reports_twice(void **state)
{
    (void)state;
    T_INT(create("twice"), 0);
    start_exec();
    wait_for(&r.lost);
    T_INT(r.result.end, BH_EXEC_EXITED); /* the first was believed, the second answered nothing */
    destroy();
}

static void on_opened(void *arg, int fd, int error)
{
    (void)arg;
    r.fd = fd;
    r.error = error;
    r.opened = true;
}

static void takes_no_descriptor_that_writes(void **state)
{
    (void)state;
    T_INT(create("writable-fd"), 0);
    r.boxes->ops->open_output(r.box, "out", "x", on_opened, NULL);
    wait_for(&r.opened);
    T_INT(r.fd, -1);
    T_INT(r.error, EPIPE);
    wait_for(&r.lost);
    destroy();
    r.opened = false;
    r.lost = false;
    T_INT(create("good"), 0);
    r.boxes->ops->open_output(r.box, "out", "x", on_opened, NULL);
    wait_for(&r.opened);
    T_TRUE(r.fd >= 0 && r.error == 0);
    bh_close(r.fd);
    r.done = false;
    r.boxes->ops->barrier(r.box, on_done, NULL);
    wait_for(&r.done);
    T_INT(r.code, -BH_E_BUSY);
    destroy();
}

static void takes_no_socket_that_does_not_listen(void **state)
{
    (void)state;
    T_INT(create("idle-socket"), 0);
    r.boxes->ops->listen(r.box, 3128, on_opened, NULL);
    wait_for(&r.opened);
    T_INT(r.fd, -1);
    T_INT(r.error, EPIPE);
    wait_for(&r.lost);
    destroy();
    r.opened = false;
    r.lost = false;
    T_INT(create("good"), 0);
    r.boxes->ops->listen(r.box, 3128, on_opened, NULL);
    wait_for(&r.opened);
    T_TRUE(r.fd >= 0 && r.error == 0);
    bh_close(r.fd);
    destroy();
}

static void errors_of_create_are_worded(void **state)
{
    (void)state;
    T_INT(create("refused"), -BH_E_HOST);
    T_TRUE(strstr(r.message, "'refused'") && strstr(r.message, "cannot clone into new namespaces") &&
           strstr(r.message, "not permitted"));
    T_TRUE(!there("boxes/refused"));
    T_INT(create("no-more"), -BH_E_HOST); /* a limit of namespaces, not a full disk */
    T_INT(create("fails"), -BH_E_DISK_FULL);
    T_TRUE(strstr(r.message, "mount overlay root"));
    T_TRUE(!there("boxes/fails"));
    T_INT(create("never-ready"), -BH_E_HOST);
    T_TRUE(strstr(r.message, "died while it was made"));
    T_TRUE(!there("boxes/never-ready"));
    T_INT(create("lends-nothing"), -BH_E_HOST); /* though it was asked to */
    T_TRUE(strstr(r.message, "died while it was made"));
    T_INT(create("good"), 0); /* and nothing of it hurts the next one */
    destroy();
}

static void a_dead_launcher_is_said(void **state)
{
    (void)state;
    T_INT(create("launcher-dies"), -BH_E_HOST);
    T_TRUE(strstr(r.message, "the launcher has ended"));
    T_INT(create("good"), -BH_E_HOST);
    T_TRUE(strstr(r.message, "the launcher has ended"));
}

static void refuses_what_it_cannot_do(void **state)
{
    struct bh_box_spec elsewhere = {.run_dir = "/elsewhere/runs/r", .key = "k"};
    (void)state;
    r.boxes->ops->create(r.boxes, &elsewhere, on_created, NULL, on_lost);
    wait_for(&r.created);
    T_INT(r.code, -BH_E_INTERNAL);
    T_TRUE(strstr(r.message, "/elsewhere/runs/r"));
}

/* Whatever is open when the backend is closed is answered, once, and nothing is left. */
static void close_answers_everything(void **state)
{
    struct bh_box_spec spec = {.run_dir = r.run, .key = "late"};
    (void)state;
    T_INT(create("good"), 0);
    start_exec();
    r.created = false;
    r.boxes->ops->create(r.boxes, &spec, on_created, NULL, on_lost);
    r.boxes->ops->close(r.boxes);
    r.boxes = NULL;
    T_TRUE(r.ended);
    T_TRUE(r.created);
    T_TRUE(!there("boxes/good") && !there("boxes/late"));
    BH_CLEANUP_FREE char *boxes = bh_path_join(r.run, "boxes");
    T_INT(rmdir(boxes), 0); /* it is empty */
}

/* Folders are used again, and as good as new. */
static void a_used_folder_is_as_new(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        T_INT(create("good"), 0);
        T_TRUE(!there("boxes/good/upper/root/left") && !there("boxes/good/deliver/left"));
        T_TRUE(there("boxes/good/upper/root") && there("boxes/good/work/root"));
        BH_CLEANUP_FREE char *left = bh_path_join(r.run, "boxes/good/upper/root/left/deep");
        BH_CLEANUP_FREE char *delivered = bh_path_join(r.run, "boxes/good/deliver/left");
        T_OK(bh_mkdir_p(left, 0000, &err));
        T_OK(bh_mkdir_p(delivered, 0755, &err));
        destroy();
        T_TRUE(!there("boxes/good"));
    }
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
#define NONSENSE(role)                                                                                             \
    {                                                                                                              \
        "speaks nonsense: " role, ends_a_box_that_speaks_nonsense, role_set_up, tear_down, (void *)(uintptr_t)role \
    }

static int role_set_up(void **state)
{
    return set_up(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(believes_a_good_one),
        NONSENSE("short"),
        NONSENSE("long"),
        NONSENSE("descriptors"),
        NONSENSE("wrong-id"),
        NONSENSE("lost-by-word"),
        NONSENSE("ready-again"),
        NONSENSE("escape"),
        NONSENSE("eof"),
        TEST(ends_a_box_that_reports_twice),
        TEST(takes_no_descriptor_that_writes),
        TEST(takes_no_socket_that_does_not_listen),
        TEST(errors_of_create_are_worded),
        TEST(a_dead_launcher_is_said),
        TEST(refuses_what_it_cannot_do),
        TEST(close_answers_everything),
        TEST(a_used_folder_is_as_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
