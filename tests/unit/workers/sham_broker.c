/* SPDX-License-Identifier: Apache-2.0 */
/* A broker that plays roles (sham_broker.h). */
#include "tests/unit/workers/sham_broker.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "tests/support/t.h"

static void say(const struct bh_val *msg)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_json_format(msg, &text);
    if (bh_msg_send(3, text.data, text.len, NULL, 0) < 0)
        _exit(4);
}

static struct bh_val *message(const char *op, int64_t id)
{
    struct bh_val *msg = bh_val_map();
    bh_val_set_str(msg, "op", op);
    bh_val_set_int(msg, "id", id);
    return msg;
}

static void say_op(const char *op, int64_t id)
{
    BH_CLEANUP_VAL struct bh_val *msg = message(op, id);
    say(msg);
}

static void say_decision(int64_t id, const char *host, const char *verdict, const char *reason)
{
    BH_CLEANUP_VAL struct bh_val *msg = message("decision", id);
    bh_val_set_str(msg, "phase", "run");
    bh_val_set_str(msg, "host", host);
    bh_val_set_int(msg, "port", 443);
    bh_val_set_str(msg, "verdict", verdict);
    bh_val_set_str(msg, "reason", reason);
    bh_val_set_int(msg, "up", 10);
    say(msg);
}

static void say_call(int64_t id, bool leaked)
{
    BH_CLEANUP_VAL struct bh_val *msg = message("call", id);
    bh_val_set_str(msg, "method", "POST");
    bh_val_set_str(msg, "path", "/v1/messages");
    bh_val_set_str(msg, "verdict", "allow");
    if (leaked)
        bh_val_set_bool(msg, "leaked", true);
    say(msg);
}

static void say_failed(int64_t id)
{
    BH_CLEANUP_VAL struct bh_val *msg = message("failed", id);
    bh_val_set_str(msg, "message", "the secret 'KEY' is empty");
    say(msg);
}

static void say_opened(int64_t id)
{
    BH_CLEANUP_VAL struct bh_val *msg = message("decision", id);
    bh_val_set_str(msg, "phase", "run");
    bh_val_set_str(msg, "host", "good.example.org");
    bh_val_set_int(msg, "port", 443);
    bh_val_set_str(msg, "verdict", "allow");
    bh_val_set_str(msg, "reason", "listed");
    bh_val_set_str(msg, "state", "open");
    bh_val_set_int(msg, "connection", 1);
    say(msg);
}

static void say_budget(int64_t id, const char *what)
{
    BH_CLEANUP_VAL struct bh_val *msg = message("budget", id);
    bh_val_set_str(msg, "what", what);
    say(msg);
}

static void say_closed(int64_t id)
{
    BH_CLEANUP_VAL struct bh_val *msg = message("closed", id);
    bh_val_set_int(msg, "requests", 3);
    bh_val_set_int(msg, "tokens_in", 40);
    bh_val_set_int(msg, "tokens_out", 5);
    say(msg);
}

/* A listener is what it is said to be. */
static void check_listener(int fd)
{
    int listens = 0;
    socklen_t len = sizeof(listens);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) < 0 || !listens)
        _exit(5);
}

static void on_open(const char *role, int64_t id, const struct bh_val *msg, int fd)
{
    check_listener(fd);
    if (bh_streq(role, "dies"))
        _exit(0);
    if (bh_streq(role, "nonsense"))
        (void)!write(3, "{]", 2);
    else if (bh_streq(role, "refuses"))
        say_failed(id);
    else if (!bh_streq(role, "silent"))
        say_op("ready", id);
    if (bh_streq(role, "dies-soon"))
        _exit(0);
    if (bh_streq(role, "opens"))
        say_opened(id);
    if (bh_streq(role, "calls") && bh_val_get(msg, "endpoint")) {
        say_call(id, false);
        say_call(id, true);
        say_budget(id, "tokens");
    }
}

static void hide(int64_t id)
{
    for (int i = 0; i < SHAM_FLOOD; i++) {
        BH_CLEANUP_FREE char *host = bh_asprintf("bad%d.example.org", i);
        say_decision(id, host, "deny", "not-listed");
    }
    for (int i = 0; i < SHAM_FLOOD; i++)
        say_decision(id, "good.example.org", "allow", "listed");
    say_decision(id, "hidden.example.org", "allow", "listed");
}

static void on_close(const char *role, int64_t id)
{
    if (bh_streq(role, "hides"))
        hide(id);
    for (int i = 0; i < (bh_streq(role, "floods") ? SHAM_FLOOD : 1); i++)
        say_decision(id, "bad.example.org", "deny", "not-listed");
    say_closed(id);
}

static int be_the_broker(void)
{
    char role[64] = "";
    for (;;) {
        static char packet[65536];
        int fds[BH_MSG_MAX_FDS];
        size_t nfds;
        ssize_t n = bh_msg_recv(3, packet, sizeof(packet), fds, &nfds);
        if (n <= 0)
            return 0;
        BH_CLEANUP_VAL struct bh_val *msg = NULL;
        if (bh_json_parse(packet, (size_t)n, &msg, NULL) != 0)
            return 6;
        const char *op = bh_val_str_of(msg, "op");
        int64_t id = bh_val_int_of(msg, "id");
        if (bh_streq(op, "open")) {
            (void)snprintf(role, sizeof(role), "%s", bh_val_str_of(msg, "agent"));
            on_open(role, id, msg, nfds == 1 ? fds[0] : -1);
        } else if (bh_streq(op, "policy") && bh_streq(role, "dies-later")) {
            return 0;
        } else if (bh_streq(op, "policy")) {
            say_op("ready", id);
        } else if (bh_streq(op, "noted") && bh_val_int_of(msg, "connection") == 1) {
            say_budget(id, bh_val_bool_of(msg, "ok") ? "tokens" : "requests");
        } else if (bh_streq(op, "close")) {
            on_close(role, id);
        } else {
            return 7;
        }
    }
}

int sham_broker_main(char **argv, int (*tests)(void))
{
    char self[4096], link[4200];
    if (bh_ends_with(argv[0], "/bulkhead-broker"))
        return be_the_broker();
    BH_CLEANUP_FREE char *dir = t_tmpdir();
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    (void)snprintf(link, sizeof(link), "%s/bulkhead-broker", dir);
    if (symlink(self, link) < 0 || setenv("BULKHEAD_LIBEXEC", dir, 1) < 0)
        return 1;
    int rc = tests();
    t_tmpdir_free(BH_TAKE(dir));
    return rc;
}
