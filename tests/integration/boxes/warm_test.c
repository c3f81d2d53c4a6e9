/* SPDX-License-Identifier: Apache-2.0 */
/* Warm forks: a fork server in one box, its forks in boxes beneath it, and servers and forks that are up to no good. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "tests/integration/boxes/kit.h"
#include "tests/support/t.h"

#define N 5

static const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin",
                                  "PYTHONPATH=/workspace",
                                  "PYTHONDONTWRITEBYTECODE=1",
                                  "BULKHEAD_WARM_FD=3",
                                  "HOME=/tmp",
                                  NULL};

struct server {
    struct kit_box box;
    struct kit_exec exec;
    bool warm, over;
};

static char *helper; /* bulkhead.py */

static void read_helper(void)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    const char *source = getenv("BH_SOURCE");
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/workers/warm/bulkhead.py", source ? source : ".");
    if (bh_read_file(path, 1 << 20, &text, NULL) != 0)
        fail_msg("no %s", path);
    helper = bh_strdup(text.data);
}

/* kit_exec is the first thing that its callbacks get. */
static struct server *server_of(void *arg)
{
    return (struct server *)(void *)((char *)arg - offsetof(struct server, exec));
}

static void on_warm(void *arg)
{
    struct server *s = server_of(arg);
    s->warm = s->over = true;
}

/* Ready, or at its end. */
static void wait_ready(struct server *s)
{
    while (!s->warm && !s->exec.done)
        kit_turn(&kit);
}

static void start_server(struct server *s, const char *program)
{
    const struct kit_how how = {.warm = true};
    const char *const argv[] = {"/usr/bin/python3", "/workspace/server.py", NULL};
    const struct bh_box_copy copies[] = {{"bulkhead.py", "bulkhead.py", 0644}, {"server.py", "server.py", 0644}};
    if (!helper)
        read_helper();
    *s = (struct server){0};
    if (kit_create(&kit, &s->box, &how) != 0)
        fail_msg("create: %s", s->box.message);
    kit_deliver(&s->box, "bulkhead.py", helper);
    kit_deliver(&s->box, "server.py", program);
    s->exec.spec = (struct bh_exec_spec){.argv = argv, .env = env, .copies = copies, .n_copies = 2, .on_warm = on_warm};
    kit_start(&s->box, &s->exec);
    wait_ready(s);
}

static void end_server(struct server *s)
{
    if (!s->exec.done)
        kit.boxes->ops->kill(s->exec.exec, SIGKILL);
    kit_finish(&s->box, &s->exec);
    kit_exec_fini(&s->exec);
    T_INT(kit_destroy(&s->box, false), 0);
}

static void must_be_warm(struct server *s)
{
    if (s->warm)
        return;
    kit_finish(&s->box, &s->exec);
    fail_msg("the server is not ready: end %d status %d (%s) %s", (int)s->exec.result.end, s->exec.result.status,
             s->exec.step, s->exec.err.data);
}

struct attempt {
    struct kit_box box;
    struct kit_exec exec;
    char number[32];
};

static void start_attempt(struct server *s, struct attempt *a, int number, const char *command)
{
    const struct kit_how how = {.beneath = s->exec.exec};
    const char *const argv[] = {"run", command, NULL};
    (void)snprintf(a->number, sizeof(a->number), "BULKHEAD_ATTEMPT=%d", number);
    const char *const own[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/agent", a->number, NULL};
    a->exec = (struct kit_exec){0};
    if (kit_create(&kit, &a->box, &how) != 0)
        fail_msg("create beneath: %s", a->box.message);
    a->exec.spec = (struct bh_exec_spec){.argv = argv, .env = own, .fork = true};
    kit_start(&a->box, &a->exec);
    a->exec.spec.argv = NULL;
    a->exec.spec.env = NULL;
}

static void end_attempt(struct attempt *a)
{
    kit_exec_fini(&a->exec);
    T_INT(kit_destroy(&a->box, false), 0);
}

/* A server whose forks do what the second word of `run` says. */
#define PRELUDE "import bulkhead, os, sys, random, time\n"
#define SERVER                                                  \
    PRELUDE "numbers = list(range(1000))\n"                     \
            "open('/workspace/state', 'w').write('prepared')\n" \
            "attempt = bulkhead.warm()\n"                       \
            "exec(attempt.argv[1])\n"

static void run_attempt(struct server *s, struct attempt *a, int number, const char *command)
{
    start_attempt(s, a, number, command);
    kit_finish(&a->box, &a->exec);
}

static void check_end(const struct attempt *a, enum bh_exec_end end, int status)
{
    if (a->exec.result.end != end || a->exec.result.status != status)
        fail_msg("attempt: end %d status %d (%s), out '%s' err '%s'", (int)a->exec.result.end, a->exec.result.status,
                 a->exec.step, a->exec.out.data, a->exec.err.data);
}

static void an_attempt_runs(void **state)
{
    struct server s;
    struct attempt a;
    (void)state;
    start_server(&s, SERVER);
    must_be_warm(&s);
    run_attempt(&s, &a, 3, "print(attempt.number, len(numbers), os.getcwd(), os.environ['HOME']); sys.exit(7)");
    check_end(&a, BH_EXEC_EXITED, 7);
    T_STR(a.exec.out.data, "3 1000 /workspace /home/agent\n");
    end_attempt(&a);
    end_server(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_attempt_runs),
    };
    KIT_MAIN(tests);
}
