/* SPDX-License-Identifier: Apache-2.0 */
/* The root of a box that nobody has written to: the next box gets it, and after whatever was done to it nobody does. */
#include <event2/event.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "tests/integration/boxes/kit.h"
#include "tests/support/t.h"
#include "workers/box/ns_priv.h"

static struct ns *ns(void)
{
    return (struct ns *)(void *)kit.boxes;
}

static struct bh_rack *rack(void)
{
    BH_LIST_FOREACH (it, tmp, &ns()->racks) {
        struct bh_rack *r = BH_CONTAINER(it, struct bh_rack, link);
        if (!r->writable_usr)
            return r;
    }
    return NULL;
}

/* When every folder has come back. */
static size_t n_lent(void)
{
    int64_t end = bh_mono_now().ns + 10 * BH_NS_PER_S;
    size_t n = 0;
    while (rack()->n_ordered > 0 && bh_mono_now().ns < end)
        kit_turn(&kit);
    T_INT(rack()->n_ordered, 0);
    for (size_t i = 0; i < rack()->n_waiting; i++)
        n += rack()->waiting[i].root >= 0;
    return n;
}

static void make(struct kit_box *b, const struct kit_how *how)
{
    ns()->alike = 0; /* none is made ahead: it would be one more that lends */
    if (kit_create(&kit, b, how) != 0)
        fail_msg("create: %s", b->message);
}

static char *says(struct kit_box *b, const char *text, bool root)
{
    struct kit_exec e = {.spec.root = root};
    kit_sh_with(b, &e, text);
    T_INT(e.result.end, BH_EXEC_EXITED);
    T_INT(e.result.status, 0);
    char *said = bh_strdup(e.out.data ? e.out.data : "");
    kit_exec_fini(&e);
    return said;
}

static void says_same(struct kit_box *b, const char *text, const char *expected)
{
    BH_CLEANUP_FREE char *said = says(b, text, false);
    T_STR(said, expected);
}

#define LOOK "cd /; echo *; stat -c '%a %u %g' /; find /workspace /tmp /home /var"

static void end(struct kit_box *b)
{
    T_INT(kit_destroy(b, false), 0);
}

static char *first_look; /* of the first box of all */

/* As every box finds it. */
static char *look_new(void)
{
    struct kit_box b;
    make(&b, NULL);
    char *look = says(&b, LOOK, false);
    if (!first_look)
        first_look = bh_strdup(look);
    T_STR(look, first_look);
    end(&b);
    T_INT(n_lent(), 1);
    return look;
}

static void next_box_gets_it(void **state)
{
    struct kit_box a, b;
    (void)state;
    BH_CLEANUP_FREE char *as_new = look_new();
    make(&a, NULL);
    T_INT(n_lent(), 0);
    make(&b, NULL); /* while that one lives it is in one of its own */
    says_same(&a, LOOK, as_new);
    says_same(&b, LOOK, as_new);
    says_same(&a, "echo a > /workspace/x; echo a > /tmp/x; cat /workspace/x /tmp/x", "a\na\n");
    says_same(&b, LOOK, as_new);
    BH_CLEANUP_FREE char *written = kit_path(&a, "upper/root/workspace/x");
    struct stat st;
    T_INT(stat(written, &st), 0); /* in its own folder, whatever its name was then */
    end(&a);
    end(&b);
    T_INT(n_lent(), 1);
    bh_free(look_new());
}

static void what_was_written_is_seen_by_nobody(void **state)
{
    static const struct {
        const char *text;
        bool root;
    } writes[] = {
        {"echo x > /workspace/x", false},
        {"mkdir /tmp/d && rmdir /tmp/d", false},
        {"cd /workspace && echo x > x && rm x", false},
        {"chmod 700 /", true},
        {"mkdir /new && rmdir /new && mkdir /again", true},
        {"mkdir /new && rmdir /new", true},
        {"rm -r /srv", true},
        {"touch -d 2001-01-01 /etc/passwd", true},
    };
    (void)state;
    BH_CLEANUP_FREE char *as_new = look_new();
    for (size_t i = 0; i < BH_ARRAY_LEN(writes); i++) {
        struct kit_box a, b;
        make(&a, NULL);
        T_INT(n_lent(), 0);
        BH_CLEANUP_FREE char *said = says(&a, writes[i].text, writes[i].root);
        end(&a);
        T_INT(n_lent(), 0);
        make(&b, NULL);
        says_same(&b, LOOK, as_new);
        end(&b);
        T_INT(n_lent(), 1);
    }
}

/* What a box can see of the directory itself, whoever had it before: not when it was made, which no box chooses. */
#define ROOT_ITSELF                                                                                      \
    "[ $(stat -c %Y /) != 1234567890 ] && [ $(stat -c %X /) != 1234567890 ] && stat -c '%s %b %h' / && " \
    "if [ -x /usr/bin/lsattr ]; then lsattr -d / 2>&-; lsattr -pd / 2>&-; fi; :"
#define MANY \
    "i=0; while [ $i -lt 300 ]; do mkdir /n$i-long-long-long-long-long-long-long-long-long-long; i=$((i+1)); done"

/* The words that root of a box could leave on `/`; folders that were emptied are looked at too. */
static void what_was_done_to_the_root_itself_is_seen_by_nobody(void **state)
{
    static const char *const words[] = {
        "touch -d @1234567890 /",
        "touch -a -d @1234567890 /",
        "then=$(stat -c @%.9Y /); mkdir /new && rmdir /new && touch -d $then /",
        MANY " && rmdir /n* && touch -d @1234567890 /",
        "[ ! -x /usr/bin/chattr ] || chattr +stuT / 2>&-; touch -d @1234567890 /",
        "chmod 700 / && chmod 755 /",
    };
    (void)state;
    struct kit_box a, next[4];
    make(&a, NULL);
    BH_CLEANUP_FREE char *as_new = says(&a, ROOT_ITSELF, false);
    end(&a);
    T_INT(n_lent(), 1);
    for (size_t i = 0; i < BH_ARRAY_LEN(words); i++) {
        make(&a, NULL);
        bh_free(says(&a, words[i], true));
        end(&a);
        T_INT(n_lent(), 0);
        for (size_t k = 0; k < BH_ARRAY_LEN(next); k++) {
            make(&next[k], NULL);
            says_same(&next[k], ROOT_ITSELF, as_new);
        }
        for (size_t k = 0; k < BH_ARRAY_LEN(next); k++)
            end(&next[k]);
        T_INT(n_lent(), BH_ARRAY_LEN(next));
        for (size_t k = 0; k < BH_ARRAY_LEN(next); k++) {
            make(&next[k], NULL);
            bh_free(says(&next[k], "echo x > /tmp/x", false));
        }
        for (size_t k = 0; k < BH_ARRAY_LEN(next); k++)
            end(&next[k]);
        make(&a, NULL);
        end(&a);
        T_INT(n_lent(), 1);
    }
}

#define TIMES "stat -c '%n %i %d %.9X %.9Y %.9Z' / /etc /etc/passwd /srv /workspace /tmp"

/* What an agent does without writing: the root is lent, and says nothing of it. */
static void looking_leaves_nothing(void **state)
{
    static const char *const looks[] = {
        "ls -la / > /dev/null; ls -lR /etc /home /srv /tmp /var /workspace > /dev/null 2>&1; cat /etc/passwd > "
        "/dev/null",
        "exec 9< /etc/passwd 8< /; flock -n 9 && flock -n 8",
        "{ exec 9< /etc/passwd 8< /; flock -n 9 && flock -n 8 && echo held && exec sleep 1000 >&- 2>&- & } | read held",
    };
    (void)state;
    struct kit_box a;
    make(&a, NULL);
    BH_CLEANUP_FREE char *as_new = says(&a, TIMES, false);
    end(&a);
    T_INT(n_lent(), 1);
    for (size_t i = 0; i < BH_ARRAY_LEN(looks); i++) {
        for (int root = 0; root < 2; root++) {
            make(&a, NULL);
            bh_free(says(&a, looks[i], root));
            end(&a);
            T_INT(n_lent(), 1);
            make(&a, NULL);
            T_INT(n_lent(), 0);
            says_same(&a, TIMES, as_new);
            says_same(&a, "flock -n / true && flock -n /etc/passwd true && echo free", "free\n");
            end(&a);
            T_INT(n_lent(), 1);
        }
    }
}

static void others_do_not_get_it(void **state)
{
    static const struct kit_how others[] = {{.shared = true}, {.layer = "frozen"}};
    struct kit_box a, b;
    (void)state;
    make(&a, &(struct kit_how){.writable_usr = true});
    says_same(&a, "echo x > /workspace/x; cat /workspace/x", "x\n");
    T_INT(kit_freeze(&a, "frozen"), 0);
    BH_CLEANUP_FREE char *as_new = look_new();
    for (size_t i = 0; i < BH_ARRAY_LEN(others); i++) {
        make(&a, &others[i]);
        T_INT(n_lent(), 1);
        says_same(&a, "cat /workspace/x 2>&- || echo none", others[i].layer ? "x\n" : "none\n");
        end(&a);
        T_INT(n_lent(), 1);
    }
    make(&b, NULL);
    says_same(&b, LOOK, as_new);
    end(&b);
    T_INT(n_lent(), 1);
}

/* What stays is an upper that is mounted nowhere. */
static void one_that_is_kept_or_frozen_lends_nothing(void **state)
{
    struct kit_box a, b;
    struct stat st;
    (void)state;
    BH_CLEANUP_FREE char *as_new = look_new();
    make(&a, NULL);
    BH_CLEANUP_FREE char *upper = kit_path(&a, "upper/root"), *work = kit_path(&a, "work");
    T_INT(kit_destroy(&a, true), 0);
    T_INT(n_lent(), 0);
    T_TRUE(stat(upper, &st) == 0 && stat(work, &st) < 0);
    make(&a, NULL);
    T_INT(kit_freeze(&a, "empty"), 0);
    T_INT(n_lent(), 0);
    make(&b, &(struct kit_how){.layer = "empty"});
    says_same(&b, LOOK, as_new);
    end(&b);
    make(&a, NULL);
    T_INT(kill((pid_t)kit_init_pid(&a), SIGKILL), 0); /* of a box that was lost nobody knows what happened in it */
    while (!a.lost)
        kit_turn(&kit);
    end(&a);
    T_INT(n_lent(), 0);
}

static void nothing_waits_for_ever(void **state)
{
    struct stat st;
    (void)state;
    BH_CLEANUP_FREE char *as_new = look_new();
    BH_CLEANUP_FREE char *boxes = bh_asprintf("%s/boxes", kit.run_dir);
    int64_t end_at = bh_mono_now().ns + 10 * BH_NS_PER_S;
    while (rack()->n_waiting > 0 && bh_mono_now().ns < end_at)
        kit_turn(&kit);
    T_INT(n_lent(), 0);
    T_INT(ns()->n_lending, 0);
    T_INT(stat(boxes, &st), 0);
}

static void nor_does_what_comes_back_late(void **state)
{
    struct kit_box a;
    (void)state;
    make(&a, NULL);
    end(&a);
    event_active(rack()->idle, EV_TIMEOUT, 0); /* while its folder is looked at */
    int64_t end_at = bh_mono_now().ns + 20 * BH_NS_PER_S;
    while (rack()->n_waiting + rack()->n_ordered > 0 && bh_mono_now().ns < end_at)
        kit_turn(&kit);
    T_INT(rack()->n_waiting, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(next_box_gets_it),
        cmocka_unit_test(what_was_written_is_seen_by_nobody),
        cmocka_unit_test(what_was_done_to_the_root_itself_is_seen_by_nobody),
        cmocka_unit_test(looking_leaves_nothing),
        cmocka_unit_test(others_do_not_get_it),
        cmocka_unit_test(one_that_is_kept_or_frozen_lends_nothing),
        cmocka_unit_test(nothing_waits_for_ever),
        cmocka_unit_test(nor_does_what_comes_back_late),
    };
    KIT_MAIN(tests);
}
