/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of states and events: their texts, every pair of every machine, and that the documents keep up with them.
 */
#include <fcntl.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "scheduler/core/engine_priv.h"
#include "tests/support/t.h"

static void texts_are_those_of_the_contract(void **state)
{
    static const char *const run[] = {"queued", "running", "paused", "succeeded", "failed", "cancelled"};
    static const char *const node[] = {"waiting", "ready", "active", "done", "failed", "skipped", "cancelled"};
    static const char *const attempt[] = {"queued",     "leased",    "booting", "setup",     "running", "checking",
                                          "collecting", "succeeded", "failed",  "cancelled", "lost"};
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(run); i++)
        T_STR(bh_run_status_text((enum bh_run_status)i), run[i]);
    for (size_t i = 0; i < BH_ARRAY_LEN(node); i++)
        T_STR(bh_node_state_text((enum bh_node_state)i), node[i]);
    for (size_t i = 0; i < BH_ARRAY_LEN(attempt); i++) {
        T_STR(bh_attempt_state_text((enum bh_attempt_state)i), attempt[i]);
        T_INT(bh_attempt_state_parse(attempt[i]), i);
    }
    T_STR(bh_run_status_text((enum bh_run_status)99), "");
    T_STR(bh_node_state_text((enum bh_node_state) - 1), "");
    T_STR(bh_attempt_state_text((enum bh_attempt_state)99), "");
    T_INT(bh_attempt_state_parse("dead"), -1);
    T_INT(bh_attempt_state_parse(""), -1);
    T_INT(bh_attempt_state_parse(NULL), -1);
}

/* Stores hold these. */
static void kinds_never_change(void **state)
{
    static const char *const kinds[] = {"run.started",       "run.owner",     "run.retry-failed", "worker.up",
                                        "worker.lost",       "attempt.state", "attempt.ended",    "box.frozen",
                                        "box.freeze-failed", "run.cancel",    "run.deadline",     "agent.published",
                                        "gate.asked",        "gate.decided",  "gate.expired"};
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(kinds); i++) {
        T_STR(bh_event_kind_text((enum bh_event_kind)i), kinds[i]);
        T_INT(bh_event_kind_parse(kinds[i]), i);
    }
    T_STR(bh_event_kind_text((enum bh_event_kind)BH_ARRAY_LEN(kinds)), "");
    T_INT(bh_event_kind_parse("run.ended"), -1);
    T_INT(bh_event_kind_parse(NULL), -1);
}

/* One row per state, one column per state that may follow. */
static void walk(const char *machine, const char *const *rows, size_t n, bool (*may)(size_t from, size_t to))
{
    for (size_t from = 0; from < n; from++) {
        for (size_t to = 0; to < n; to++) {
            if (may(from, to) != (rows[from][to] == 'x'))
                fail_msg("%s: %zu to %zu", machine, from, to);
        }
        assert_false(may(from, n));
        assert_false(may(n, from));
    }
}

static bool run_may(size_t from, size_t to)
{
    return bh_run_may_move((enum bh_run_status)from, (enum bh_run_status)to);
}

static bool node_may(size_t from, size_t to)
{
    return bh_node_may_move((enum bh_node_state)from, (enum bh_node_state)to);
}

static bool attempt_may(size_t from, size_t to)
{
    return bh_attempt_may_move((enum bh_attempt_state)from, (enum bh_attempt_state)to);
}

static bool box_may(size_t from, size_t to)
{
    return bh_box_may_move((enum bh_box_mode)from, (enum bh_box_mode)to);
}

static void every_pair_of_every_machine(void **state)
{
    static const char *const run[] = {".x...x", "...xxx", "......", "......", ".x....", ".x...."};
    static const char *const node[] = {".x..xxx", "x.x.xxx", "xx.xxxx", ".......", "x......", "x......", "x......"};
    static const char *const attempt[] = {".x.........", "..xxxxxxxxx", "...xxxxxxxx", "....xxxxxxx",
                                          ".....xxxxxx", "......xxxxx", ".......xxxx", "...........",
                                          "...........", "...........", "..........."};
    static const char *const box[] = {".x..", "x.x.", "x..x", "x.x."};
    (void)state;
    walk("run", run, BH_ARRAY_LEN(run), run_may);
    walk("node", node, BH_ARRAY_LEN(node), node_may);
    walk("attempt", attempt, BH_ARRAY_LEN(attempt), attempt_may);
    walk("box", box, BH_ARRAY_LEN(box), box_may);
}

/* --- the diagrams --- */

static const char *const run_functions[] = {
#define BH_RUN_MOVE(from, to, function) #function,
#include "scheduler/core/states.def"
};
static const char *const node_functions[] = {
#define BH_NODE_MOVE(from, to, function) #function,
#include "scheduler/core/states.def"
};
static const char *const attempt_functions[] = {
#define BH_ATTEMPT_MOVE(from, to, function) #function,
#include "scheduler/core/states.def"
};
static const char *const box_functions[] = {
#define BH_BOX_MOVE(from, to, function) #function,
#include "scheduler/core/states.def"
};

static char *read_source(const char *name)
{
    struct bh_buf text = BH_BUF_INIT;
    const char *root = getenv("BH_SOURCE");
    char *path BH_CLEANUP_FREE = bh_asprintf("%s/scheduler/core/%s", root ? root : ".", name);
    int fd BH_CLEANUP_FD = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail_msg("cannot open %s", path);
    T_OK(bh_read_all(fd, 1 << 20, &text, &err));
    return bh_buf_take(&text);
}

static bool is_defined(const char *function)
{
    static const char *const files[] = {"engine.c", "engine_nodes.c", "engine_attempts.c", "engine_boxes.c"};
    char *call BH_CLEANUP_FREE = bh_asprintf(" %s(struct bh_engine *e", function);
    for (size_t i = 0; i < BH_ARRAY_LEN(files); i++) {
        char *text BH_CLEANUP_FREE = read_source(files[i]);
        if (strstr(text, call))
            return true;
    }
    return false;
}

/* The head comment names the function of every arrow, and every such function exists. */
static void check_diagram(const char *file, const char *const *functions, size_t n)
{
    char *head BH_CLEANUP_FREE = read_source(file);
    char *end = strstr(head, "#include");
    assert_non_null(end);
    *end = '\0';
    for (size_t i = 0; i < n; i++) {
        if (!strstr(head, functions[i]))
            fail_msg("the diagram of %s does not name %s", file, functions[i]);
        if (!is_defined(functions[i]))
            fail_msg("%s is named in states.def and nowhere defined", functions[i]);
    }
}

static void diagrams_name_their_functions(void **state)
{
    (void)state;
    check_diagram("engine.c", run_functions, BH_ARRAY_LEN(run_functions));
    check_diagram("engine_nodes.c", node_functions, BH_ARRAY_LEN(node_functions));
    check_diagram("engine_attempts.c", attempt_functions, BH_ARRAY_LEN(attempt_functions));
    check_diagram("engine_boxes.c", box_functions, BH_ARRAY_LEN(box_functions));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_those_of_the_contract),
        cmocka_unit_test(kinds_never_change),
        cmocka_unit_test(every_pair_of_every_machine),
        cmocka_unit_test(diagrams_name_their_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
