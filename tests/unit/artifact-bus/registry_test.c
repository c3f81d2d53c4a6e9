/* SPDX-License-Identifier: Apache-2.0 */
#include "artifact-bus/registry.h"

#include "tests/support/t.h"

static struct bh_artifact make(const char *name, const char *agent, int attempt, const char *instance,
                               const char *content)
{
    return (struct bh_artifact){
        .name = name,
        .object = {.digest = bh_digest_of(content, strlen(content)), .size = (int64_t)strlen(content)},
        .agent = agent,
        .attempt = attempt,
        .instance = instance,
        .published = {.us = 1},
        .provenance = "{}",
    };
}

static struct bh_artifact source(const char *name)
{
    return make(name, "", 0, "", "from outside");
}

static int setup(void **state)
{
    *state = bh_registry_new();
    return 0;
}

static int teardown(void **state)
{
    bh_registry_free(*state);
    return 0;
}

static void test_publish_and_find(void **state)
{
    struct bh_registry *r = *state;
    char name[] = "scores.csv", agent[] = "modeling";
    struct bh_artifact items[] = {make(name, agent, 1, "i1", "x"), make("log/a.txt", "modeling", 1, "i1", "y")};
    items[0].tainted = true;
    assert_null(bh_registry_get(r, "scores.csv"));
    T_OK(bh_registry_publish(r, items, 2, &err));
    memset(name, '?', sizeof(name) - 1); /* the registry has its own copies */
    memset(agent, '?', sizeof(agent) - 1);
    T_INT(bh_registry_len(r), 2);
    const struct bh_artifact *a = bh_registry_get(r, "scores.csv");
    assert_ptr_equal(a, bh_registry_at(r, 0));
    T_STR(a->agent, "modeling");
    T_STR(a->instance, "i1");
    T_STR(a->provenance, "{}");
    T_INT(a->object.size, 1);
    assert_true(a->tainted);
    T_STR(bh_registry_at(r, 1)->name, "log/a.txt");
    assert_null(bh_registry_get(r, "log"));
    assert_null(bh_registry_get(r, "SCORES.CSV"));
}

static void test_what_was_lent_stays(void **state)
{
    struct bh_registry *r = *state;
    struct bh_artifact first = make("first", "a", 1, "i0", "x");
    T_OK(bh_registry_publish(r, &first, 1, &err));
    const struct bh_artifact *lent = bh_registry_get(r, "first");
    for (int i = 0; i < 1000; i++) {
        char name[32];
        snprintf(name, sizeof(name), "n%d", i);
        struct bh_artifact more = make(name, "b", 1, name, "x");
        T_OK(bh_registry_publish(r, &more, 1, &err));
    }
    assert_ptr_equal(bh_registry_get(r, "first"), lent);
    T_STR(lent->name, "first");
}

/* name@N of each attempt, then the plain name of the one that was chosen; a later try takes the place of an earlier. */
static void test_attempts(void **state)
{
    struct bh_registry *r = *state;
    struct bh_artifact first = make("fix.diff@1", "a", 1, "i1", "x"), second = make("fix.diff@2", "a", 2, "i2", "y");
    struct bh_artifact chosen = make("fix.diff", "a", 2, "i2", "y"), again = make("fix.diff@1", "a", 1, "i3", "z");
    T_OK(bh_registry_publish(r, &first, 1, &err));
    T_OK(bh_registry_publish(r, &second, 1, &err));
    T_ERR(bh_registry_publish(r, &chosen, 1, &err), BH_E_PROTOCOL, "has published already");
    chosen.selected = true;
    T_OK(bh_registry_publish(r, &chosen, 1, &err));
    T_OK(bh_registry_publish(r, &chosen, 1, &err)); /* said twice */
    T_INT(bh_registry_len(r), 3);
    T_OK(bh_registry_publish(r, &again, 1, &err));
    T_STR(bh_registry_get(r, "fix.diff@1")->instance, "i3");
    T_STR(bh_registry_at(r, 0)->instance, "i1"); /* what was lent stays */
    T_INT(bh_registry_len(r), 4);
    struct bh_artifact thief = make("fix.diff@1", "b", 1, "i4", "x"), other = make("fix.diff", "b", 1, "i5", "y");
    other.selected = true;
    T_ERR(bh_registry_publish(r, &thief, 1, &err), BH_E_COLLISION, "is the same name as");
    T_ERR(bh_registry_publish(r, &other, 1, &err), BH_E_COLLISION, "'fix.diff' of agent 'a' (attempt 2)");
}

/* What stands on the bus, what comes, and what is said. All kinds, in both directions. */
static const struct {
    const char *there, *comes, *relation;
} clashes[] = {
    {"output.json", "output.json", "is the same name as"},
    {"output.json", "Output.JSON", "differs only by case from"},
    {"dir/A/x", "dir/a/X", "differs only by case from"},
    {"a", "a/b", "lies below"},
    {"a", "a/b/c", "lies below"},
    {"a/b/c", "a", "is a folder of"},
    {"a/b/c", "a/b", "is a folder of"},
    {"A", "a/b", "lies below"},
    {"a/b", "A", "is a folder of"},
};

static void test_collisions_name_both(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(clashes); i++) {
        struct bh_registry *r = bh_registry_new();
        struct bh_artifact there = make(clashes[i].there, "left", 2, "i1", "same bytes");
        struct bh_artifact comes = make(clashes[i].comes, "right", 3, "i2", i % 2 ? "same bytes" : "other bytes");
        struct bh_err *why = NULL;
        char want[256], digest[BH_DIGEST_TEXT];
        T_OK(bh_registry_publish(r, &there, 1, &err));
        T_INT(bh_registry_publish(r, &comes, 1, &why), -BH_E_COLLISION);
        snprintf(want, sizeof(want), "'%s' of agent 'right' (attempt 3) %s '%s' of agent 'left' (attempt 2)",
                 clashes[i].comes, clashes[i].relation, clashes[i].there);
        T_STR(bh_err_message(why), want);
        assert_non_null(strstr(bh_err_get_detail(why), bh_digest_format(&there.object.digest, digest)));
        assert_non_null(strstr(bh_err_get_detail(why), bh_digest_format(&comes.object.digest, digest)));
        assert_non_null(strstr(bh_err_get_detail(why), "instance i1"));
        assert_non_null(strstr(bh_err_get_detail(why), "instance i2"));
        T_INT(bh_code_info(bh_err_code(why))->exit_status, 6);
        T_INT(bh_registry_len(r), 1);
        bh_err_free(why);
        bh_registry_free(r);
    }
}

static void test_no_collision(void **state)
{
    struct bh_registry *r = *state;
    static const char *const names[] = {"a/b", "a/c", "ab", "a.b", "a-b/c", "b", "abc/a"};
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        struct bh_artifact item = make(names[i], names[i][0] == 'a' ? "x" : "y", 1, names[i], "z");
        T_OK(bh_registry_publish(r, &item, 1, &err));
    }
    T_INT(bh_registry_len(r), BH_ARRAY_LEN(names));
}

static void test_all_or_none(void **state)
{
    struct bh_registry *r = *state;
    struct bh_artifact there = make("taken", "left", 1, "i1", "x");
    struct bh_artifact items[] = {make("free", "right", 1, "i2", "x"), make("taken", "right", 1, "i2", "x"),
                                  make("also-free", "right", 1, "i2", "x")};
    T_OK(bh_registry_publish(r, &there, 1, &err));
    T_ERR(bh_registry_publish(r, items, 3, &err), BH_E_COLLISION, "'taken' of agent 'right'");
    T_INT(bh_registry_len(r), 1);
    assert_null(bh_registry_get(r, "free"));
    /* nothing of the refused one is left in the way, its instance neither */
    items[1] = items[2];
    T_OK(bh_registry_publish(r, items, 2, &err));
    struct bh_artifact other = make("free/below", "third", 1, "i3", "x");
    T_ERR(bh_registry_publish(r, &other, 1, &err), BH_E_COLLISION, "lies below 'free' of agent 'right' (attempt 1)");
}

static void test_clash_within_one_publication(void **state)
{
    struct bh_registry *r = *state;
    struct bh_artifact by_case[] = {make("x/a", "g", 1, "i1", "1"), make("x/A", "g", 1, "i1", "2")};
    struct bh_artifact folder[] = {make("x", "g", 1, "i1", "1"), make("x/A", "g", 1, "i1", "2")};
    struct bh_artifact twice[] = {make("x", "g", 1, "i1", "1"), make("x", "g", 1, "i1", "1")};
    T_ERR(bh_registry_publish(r, by_case, 2, &err), BH_E_COLLISION,
          "'x/A' of agent 'g' (attempt 1) differs only by case from 'x/a' of agent 'g' (attempt 1)");
    T_ERR(bh_registry_publish(r, folder, 2, &err), BH_E_COLLISION, "lies below 'x' of agent 'g'");
    T_ERR(bh_registry_publish(r, twice, 2, &err), BH_E_COLLISION, "is the same name as");
    T_INT(bh_registry_len(r), 0);
}

static void test_repeat_by_the_same_instance(void **state)
{
    struct bh_registry *r = *state;
    struct bh_artifact items[] = {make("a", "x", 1, "i1", "1"), make("b", "x", 1, "i1", "2")};
    T_OK(bh_registry_publish(r, items, 2, &err));
    T_OK(bh_registry_publish(r, items, 2, &err));
    T_OK(bh_registry_check(r, items, 2, &err));
    T_INT(bh_registry_len(r), 2);
    struct bh_artifact more[] = {items[0], items[1], make("c", "x", 1, "i1", "3")};
    T_ERR(bh_registry_publish(r, more, 3, &err), BH_E_PROTOCOL, "instance 'i1' of agent 'x' has published already");
    T_ERR(bh_registry_publish(r, &more[2], 1, &err), BH_E_PROTOCOL, "comes with other outputs");
    struct bh_artifact changed = make("a", "x", 1, "i1", "other");
    T_ERR(bh_registry_publish(r, &changed, 1, &err), BH_E_PROTOCOL, "comes with other outputs");
    T_INT(bh_registry_len(r), 2);
}

static void test_another_instance_of_the_agent(void **state)
{
    struct bh_registry *r = *state;
    struct bh_artifact one = make("a", "x", 1, "i1", "1"), two = make("a", "x", 2, "i2", "1");
    T_OK(bh_registry_publish(r, &one, 1, &err));
    T_ERR(bh_registry_publish(r, &two, 1, &err), BH_E_COLLISION,
          "'a' of agent 'x' (attempt 2) is the same name as 'a' of agent 'x' (attempt 1)");
}

static void test_sources(void **state)
{
    struct bh_registry *r = *state;
    struct bh_artifact items[] = {source("status"), source("data/x")};
    T_OK(bh_registry_publish(r, items, 2, &err));
    T_OK(bh_registry_publish(r, items, 2, &err)); /* a resumed run says so again */
    struct bh_artifact more = source("other");
    T_OK(bh_registry_publish(r, &more, 1, &err)); /* sources are no one's instance */
    struct bh_artifact out = make("Status", "x", 1, "i1", "1");
    T_ERR(bh_registry_publish(r, &out, 1, &err), BH_E_COLLISION,
          "'Status' of agent 'x' (attempt 1) differs only by case from the source 'status'");
    T_INT(bh_registry_len(r), 3);
}

static void test_bad_names(void **state)
{
    struct bh_registry *r = *state;
    static const char *const bad[] = {"", "/a", "a/", "a//b", "../a", "a@x", ".hidden", "a b"};
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++) {
        struct bh_artifact item = make(bad[i], "x", 1, "i1", "1");
        T_ERR(bh_registry_publish(r, &item, 1, &err), BH_E_BAD_NAME, "the artifact name '");
    }
    T_INT(bh_registry_len(r), 0);
}

static void test_check_changes_nothing(void **state)
{
    struct bh_registry *r = *state;
    struct bh_artifact one = make("a", "x", 1, "i1", "1"), two = make("A", "y", 1, "i2", "1");
    T_OK(bh_registry_check(r, &one, 1, &err));
    T_INT(bh_registry_len(r), 0);
    T_OK(bh_registry_publish(r, &two, 1, &err));
    T_ERR(bh_registry_check(r, &one, 1, &err), BH_E_COLLISION, "differs only by case");
    T_INT(bh_registry_check(r, &one, 1, NULL), -BH_E_COLLISION); /* who wants the code only */
    T_OK(bh_registry_publish(r, NULL, 0, &err));
    bh_registry_free(NULL);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_publish_and_find),
        T(test_what_was_lent_stays),
        T(test_attempts),
        T(test_collisions_name_both),
        T(test_no_collision),
        T(test_all_or_none),
        T(test_clash_within_one_publication),
        T(test_repeat_by_the_same_instance),
        T(test_another_instance_of_the_agent),
        T(test_sources),
        T(test_bad_names),
        T(test_check_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
