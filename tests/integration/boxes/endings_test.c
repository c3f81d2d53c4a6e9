/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends under load: thousands of fast exits at once, each with the status that is its own, nobody left unreaped; and
 * that the end of a command is the end of everything it began, however it hides.
 *
 * How many exits: $BH_EXITS, 10,000 where it says nothing, half of them in a shared box.
 */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/units.h"
#include "tests/integration/boxes/kit.h"
#include "tests/support/t.h"

enum { AT_ONCE = 16, BOXES = 4, KILLED_EVERY = 64 };

static int64_t wanted = 10000;

/* --- many --- */

/* One place in which one exec after the other runs. */
struct lane {
    struct kit_box *box;
    struct kit_exec exec;
    int number; /* of the exec that runs now */
    char text[64];
    const char *argv[4];
};

static struct bh_exec_result due(int number)
{
    if (number % KILLED_EVERY == KILLED_EVERY - 1)
        return (struct bh_exec_result){.end = BH_EXEC_SIGNALED, .status = SIGKILL};
    return (struct bh_exec_result){.end = BH_EXEC_EXITED, .status = number % 256};
}

static void start(struct lane *l, int number)
{
    struct bh_exec_result want = due(number);
    l->number = number;
    (void)snprintf(l->text, sizeof(l->text), want.end == BH_EXEC_EXITED ? "exit %d" : "kill -%d $$", want.status);
    l->argv[0] = "/bin/sh";
    l->argv[1] = "-c";
    l->argv[2] = l->text;
    l->exec = (struct kit_exec){.spec.argv = l->argv};
    kit_start(l->box, &l->exec);
}

static void finish(struct lane *l)
{
    struct bh_exec_result want = due(l->number);
    kit_finish(l->box, &l->exec);
    if (l->exec.result.end != want.end || l->exec.result.status != want.status || l->exec.calls != 1)
        fail_msg("exit %d ended by %d with %d, not by %d with %d (%u answers; %s)", l->number, (int)l->exec.result.end,
                 l->exec.result.status, (int)want.end, want.status, l->exec.calls, l->exec.step);
    kit_exec_fini(&l->exec);
}

/* Children of a process, by /proc: there must be none, dead or alive. */
static size_t children_of(int64_t parent)
{
    DIR *dir = opendir("/proc");
    size_t n = 0;
    const struct dirent *entry;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        BH_CLEANUP_FREE char *path = bh_asprintf("/proc/%s/stat", entry->d_name);
        BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
        if (*entry->d_name < '0' || *entry->d_name > '9' || bh_read_file(path, 4096, &text, NULL) != 0)
            continue;
        const char *after = strrchr(text.data, ')');
        n += after && strtol(after + 4, NULL, 10) == parent; /* ") S PPID" */
    }
    (void)closedir(dir);
    return n;
}

static void run_many(struct lane *lanes, int n_lanes, int total)
{
    int begun = 0, ended = 0;
    for (; begun < n_lanes && begun < total; begun++)
        start(&lanes[begun], begun);
    while (ended < total) {
        struct lane *l = &lanes[ended % n_lanes];
        finish(l);
        ended++;
        if (begun < total)
            start(l, begun++);
    }
}

static void make(struct kit_box *box, bool shared)
{
    const struct kit_how how = {.shared = shared};
    if (kit_create(&kit, box, &how) != 0)
        fail_msg("create: %s", box->message);
}

static void exits_of_a_shared_box_are_their_own(void **state)
{
    struct kit_box box;
    struct lane lanes[AT_ONCE];
    (void)state;
    make(&box, true);
    for (int i = 0; i < AT_ONCE; i++)
        lanes[i] = (struct lane){.box = &box};
    run_many(lanes, AT_ONCE, (int)(wanted / 2));
    T_INT(children_of(kit_init_pid(&box)), 0);
    T_INT(kit_destroy(&box, false), 0);
}

static void exits_of_own_boxes_are_their_own(void **state)
{
    struct kit_box boxes[BOXES];
    struct lane lanes[BOXES];
    (void)state;
    for (int i = 0; i < BOXES; i++) {
        make(&boxes[i], false);
        lanes[i] = (struct lane){.box = &boxes[i]};
    }
    run_many(lanes, BOXES, (int)(wanted / 2));
    for (int i = 0; i < BOXES; i++) {
        T_INT(children_of(kit_init_pid(&boxes[i])), 0);
        T_INT(kit_destroy(&boxes[i], false), 0);
    }
}

/* --- nothing outlives the command --- */

static const char *const hiders[] = {
    "sleep 86397 & exit 7",
    "setsid sleep 86397 & exit 7",
    "(setsid sh -c 'sleep 86397 & sleep 86397' &) ; exit 7",
    "trap '' TERM HUP INT; (trap '' TERM; while :; do sleep 86397; done) & exit 7",
    "sleep 86397 & kill -STOP $!; exit 7",
    "(kill -STOP $(exec sh -c 'echo $PPID'); sleep 86397) & exit 7",
    "for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; exit 7",
    "sh -c 'sh -c \"sh -c \\\"sleep 86397 & sleep 86397\\\" &\" &' ; exit 7",
};

/* A new exec of the same box sees itself alone; of a shared one it never sees others, so init is asked. */
static void check_gone(struct kit_box *box, const char *text, bool shared)
{
    struct kit_exec e;
    if (shared) {
        T_INT(children_of(kit_init_pid(box)), 0);
        return;
    }
    kit_sh(box, &e, KIT_PS);
    if (strcmp(e.out.data, KIT_PS_ALONE) != 0)
        fail_msg("after '%s' there is still: %s", text, e.out.data);
    kit_exec_fini(&e);
}

static void its_end_is_the_end_of_all(void **state)
{
    bool shared = *state != NULL;
    struct kit_box box;
    make(&box, shared);
    for (size_t i = 0; i < BH_ARRAY_LEN(hiders); i++) {
        struct kit_exec e;
        kit_sh(&box, &e, hiders[i]);
        if (e.result.end != BH_EXEC_EXITED || e.result.status != 7)
            fail_msg("'%s' ended by %d with %d: %s", hiders[i], (int)e.result.end, e.result.status, e.err.data);
        kit_exec_fini(&e);
        check_gone(&box, hiders[i], shared);
    }
    T_INT(kit_destroy(&box, false), 0);
}

/* SIGTERM is heard by everybody of the exec, and SIGKILL ends whoever does not mind. */
static const struct {
    const char *text;
    bool by_term;
    enum bh_exec_end end;
    int status;
} told[] = {
    {"echo up; exec sleep 86397", true, BH_EXEC_SIGNALED, SIGTERM},
    {"trap 'exit 3' TERM; echo up; sleep 86397 & wait", true, BH_EXEC_EXITED, 3},
    {"trap 'wait; exit 4' TERM; (trap 'exit' TERM; echo up; while :; do sleep 86397 & wait; done) & wait; exit 5", true,
     BH_EXEC_EXITED, 4},
    {"trap '' TERM; echo up; while :; do sleep 86397; done", false, BH_EXEC_SIGNALED, SIGKILL},
    {"trap '' TERM; (setsid sh -c 'while :; do sleep 86397; done') & echo up; wait", false, BH_EXEC_SIGNALED, SIGKILL},
    /* It has stopped when the kernel says so: until then it would die of the other signal. */
    {"sh -c 'kill -STOP $PPID; until grep -q \"^State:.T\" /proc/$PPID/status; do :; done; echo up'; exit 9", false,
     BH_EXEC_SIGNALED, SIGKILL},
};

static void wait_for_line(struct kit_exec *e)
{
    char c = 0;
    while (c != '\n')
        T_INT(read(e->out_fd, &c, 1), 1);
}

static void who_is_told_to_end_ends(void **state)
{
    bool shared = *state != NULL;
    struct kit_box box;
    make(&box, shared);
    for (size_t i = 0; i < BH_ARRAY_LEN(told); i++) {
        const char *argv[] = {"/bin/sh", "-c", told[i].text, NULL};
        struct kit_exec e = {.spec.argv = argv};
        kit_start(&box, &e);
        wait_for_line(&e);
        kit.boxes->ops->kill(e.exec, SIGTERM);
        if (!told[i].by_term)
            kit.boxes->ops->kill(e.exec, SIGKILL);
        kit_finish(&box, &e);
        if (e.result.end != told[i].end || e.result.status != told[i].status)
            fail_msg("'%s' ended by %d with %d: %s", told[i].text, (int)e.result.end, e.result.status, e.err.data);
        kit_exec_fini(&e);
        check_gone(&box, told[i].text, shared);
    }
    T_INT(kit_destroy(&box, false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exits_of_a_shared_box_are_their_own),
        cmocka_unit_test(exits_of_own_boxes_are_their_own),
        cmocka_unit_test_prestate(its_end_is_the_end_of_all, NULL),
        cmocka_unit_test_prestate(its_end_is_the_end_of_all, (void *)"shared"),
        cmocka_unit_test_prestate(who_is_told_to_end_ends, NULL),
        cmocka_unit_test_prestate(who_is_told_to_end_ends, (void *)"shared"),
    };
    const char *exits = getenv("BH_EXITS");
    if (exits && (bh_parse_int(exits, &wanted) != 0 || wanted < 1 || wanted > 10000000))
        return 2;
    KIT_MAIN(tests);
}
