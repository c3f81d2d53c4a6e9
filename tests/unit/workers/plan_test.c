/* SPDX-License-Identifier: Apache-2.0 */
/* Exec requests as init reads them: whole ones, cut ones, mad ones. No request may crash PID 1 of a box. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/support/t.h"
#include "workers/init/init.h"

static void add_request(struct bh_buf *out, struct bh_msg_exec *msg)
{
    static const char *const strings[] = {
        "/bin/sh", "-c",       "exit 0",   "A=1", "B=",       "/workspace", "in", "p.md",
        "out/a",   "files/f1", "bin/tool", "x",   "files/f2", "readme",     "-"};
    *msg = (struct bh_msg_exec){.kind = BH_MSG_EXEC, .id = 42, .argc = 3, .envc = 2, .n_empty = 1, .n_copies = 2};
    msg->flags = BH_EXEC_ROOT | BH_EXEC_HAS_INPUTS | BH_EXEC_HAS_PROMPT;
    bh_buf_add(out, msg, sizeof(*msg));
    for (size_t i = 0; i < BH_ARRAY_LEN(strings); i++)
        bh_pack_str(out, strings[i]);
}

static void open_three(int fds[4])
{
    for (int i = 0; i < 3; i++)
        fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
    fds[3] = -1;
}

static void check_whole(const struct bh_exec_plan *plan)
{
    T_INT(plan->id, 42);
    T_STR(plan->argv[2], "exit 0");
    T_TRUE(plan->argv[3] == NULL);
    T_STR(plan->envp[1], "B=");
    T_TRUE(plan->envp[2] == NULL);
    T_STR(plan->cwd, "/workspace");
    T_STR(plan->inputs, "in");
    T_STR(plan->prompt, "p.md");
    T_TRUE(!plan->params && !plan->needs);
    T_STR(plan->empty[0], "out/a");
    T_STR(plan->copies[0].to, "bin/tool");
    T_TRUE(plan->copies[0].exec && !plan->copies[1].exec);
}

static void reads_a_request(void **state)
{
    (void)state;
    struct bh_buf out = BH_BUF_INIT;
    struct bh_msg_exec msg;
    struct bh_exec_plan plan;
    int fds[4];
    add_request(&out, &msg);
    open_three(fds);
    T_INT(bh_exec_plan_parse(&plan, out.data, out.len, fds, 3), 0);
    check_whole(&plan);
    T_INT(plan.stdio[1], fds[1]);
    bh_exec_plan_fini(&plan);
    T_TRUE(fcntl(fds[0], F_GETFD) < 0); /* the streams were the plan's */
    bh_buf_fini(&out);
}

static void reads_what_belongs_to_the_network_of_the_host(void **state)
{
    (void)state;
    static const char *const strings[] = {"true", "/", "needs", "nameserver 192.0.2.1\n"};
    struct bh_buf out = BH_BUF_INIT;
    struct bh_exec_plan plan;
    struct bh_msg_exec msg = {.kind = BH_MSG_EXEC, .id = 1, .argc = 1};
    int fds[4];
    msg.flags = BH_EXEC_HOST_NETWORK | BH_EXEC_HAS_NEEDS | BH_EXEC_HAS_RESOLVER;
    bh_buf_add(&out, &msg, sizeof(msg));
    for (size_t i = 0; i < BH_ARRAY_LEN(strings); i++)
        bh_pack_str(&out, strings[i]);
    open_three(fds);
    T_INT(bh_exec_plan_parse(&plan, out.data, out.len, fds, 3), 0);
    T_TRUE(plan.flags & BH_EXEC_HOST_NETWORK);
    T_STR(plan.needs, "needs");
    T_STR(plan.resolver, "nameserver 192.0.2.1\n");
    bh_exec_plan_fini(&plan);
    bh_buf_fini(&out);
}

static void reads_a_request_from_a_memfd(void **state)
{
    (void)state;
    struct bh_buf out = BH_BUF_INIT;
    struct bh_msg_exec msg;
    struct bh_exec_plan plan;
    int fds[4];
    add_request(&out, &msg);
    open_three(fds);
    fds[3] = memfd_create("exec", MFD_CLOEXEC);
    msg.in_memfd = (uint32_t)(out.len - sizeof(msg));
    T_INT(bh_write_all(fds[3], out.data + sizeof(msg), msg.in_memfd), 0);
    T_INT(bh_exec_plan_parse(&plan, &msg, sizeof(msg), fds, 4), 0);
    check_whole(&plan);
    bh_exec_plan_fini(&plan);
    T_TRUE(fcntl(fds[3], F_GETFD) < 0);
    open_three(fds);
    fds[3] = memfd_create("exec", MFD_CLOEXEC); /* shorter than it says */
    T_INT(bh_write_all(fds[3], out.data + sizeof(msg), 20), 0);
    T_INT(bh_exec_plan_parse(&plan, &msg, sizeof(msg), fds, 4), -1);
    T_INT(errno, EPROTO);
    bh_buf_fini(&out);
}

/* Every way to cut it is an error, with every descriptor closed. */
static void refuses_every_cut(void **state)
{
    (void)state;
    struct bh_buf out = BH_BUF_INIT;
    struct bh_msg_exec msg;
    struct bh_exec_plan plan;
    int fds[4];
    add_request(&out, &msg);
    for (size_t len = 0; len < out.len; len++) {
        open_three(fds);
        T_INT(bh_exec_plan_parse(&plan, out.data, len, fds, 3), -1);
        T_TRUE(fcntl(fds[2], F_GETFD) < 0);
    }
    bh_buf_addc(&out, 'x'); /* and one byte too many is one too */
    open_three(fds);
    T_INT(bh_exec_plan_parse(&plan, out.data, out.len, fds, 3), -1);
    bh_buf_fini(&out);
}

static void refuses_wrong_counts(void **state)
{
    (void)state;
    struct bh_buf out = BH_BUF_INIT;
    struct bh_msg_exec msg;
    struct bh_exec_plan plan;
    int fds[4];
    add_request(&out, &msg);
    const struct {
        size_t offset;
        uint32_t value;
    } changes[] = {
        {offsetof(struct bh_msg_exec, argc), 0},
        {offsetof(struct bh_msg_exec, argc), 0xffffffff},
        {offsetof(struct bh_msg_exec, envc), 0x7fffffff},
        {offsetof(struct bh_msg_exec, n_empty), 100},
        {offsetof(struct bh_msg_exec, n_copies), 0xffffffff},
        {offsetof(struct bh_msg_exec, n_copies), 0},
        {offsetof(struct bh_msg_exec, in_memfd), 10}, /* and no memfd came */
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(changes); i++) {
        char *copy = malloc(out.len);
        memcpy(copy, out.data, out.len);
        memcpy(copy + changes[i].offset, &changes[i].value, sizeof(uint32_t));
        open_three(fds);
        T_INT(bh_exec_plan_parse(&plan, copy, out.len, fds, 3), -1);
        free(copy);
    }
    open_three(fds);
    T_INT(bh_exec_plan_parse(&plan, out.data, out.len, fds, 2), -1); /* a stream is missing */
    bh_close(fds[2]);
    bh_buf_fini(&out);
}

/* Random damage: whatever it answers, it answers (the sanitizers watch). */
static void survives_damage(void **state)
{
    (void)state;
    struct bh_buf out = BH_BUF_INIT;
    struct bh_msg_exec msg;
    struct bh_exec_plan plan;
    uint64_t seed = 0x9e3779b97f4a7c15u;
    add_request(&out, &msg);
    for (int round = 0; round < 20000; round++) {
        const int none[4] = {-1, -1, -1, -1};
        char *copy = malloc(out.len);
        memcpy(copy, out.data, out.len);
        for (int hits = 0; hits < 3; hits++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            copy[(seed >> 33) % out.len] = (char)(seed >> 20);
        }
        if (bh_exec_plan_parse(&plan, copy, out.len, none, 3) == 0)
            bh_exec_plan_fini(&plan);
        free(copy);
    }
    bh_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_request),
        cmocka_unit_test(reads_what_belongs_to_the_network_of_the_host),
        cmocka_unit_test(reads_a_request_from_a_memfd),
        cmocka_unit_test(refuses_every_cut),
        cmocka_unit_test(refuses_wrong_counts),
        cmocka_unit_test(survives_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
