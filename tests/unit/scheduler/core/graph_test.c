/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/support/t.h"
#include "tests/unit/scheduler/core/fixture.h"

static void add_group(struct bh_spec *spec, size_t n, const size_t *nodes)
{
    spec->groups = bh_realloc_array(spec->groups, spec->n_groups + 1, sizeof(*spec->groups));
    spec->groups[spec->n_groups++] =
        (struct bh_spec_group){.nodes = bh_memdup(nodes, n * sizeof(*nodes)), .n_nodes = n};
}

static void edges_are_turned_round(void **state)
{
    struct bh_graph g;
    (void)state;
    struct bh_spec *spec = fx_spec(4);
    fx_dep(spec, 1, 0, BH_DEP_REQUIRED);
    fx_dep(spec, 2, 0, BH_DEP_OPTIONAL);
    fx_dep(spec, 2, 1, BH_DEP_BARRIER);
    bh_graph_init(&g, spec);
    T_INT(g.dependents.off[1] - g.dependents.off[0], 2);
    T_INT(g.dependents.items[g.dependents.off[0]], 1);
    T_INT(g.kinds[g.dependents.off[0]], BH_DEP_REQUIRED);
    T_INT(g.dependents.items[g.dependents.off[0] + 1], 2);
    T_INT(g.kinds[g.dependents.off[0] + 1], BH_DEP_OPTIONAL);
    T_INT(g.dependents.off[2] - g.dependents.off[1], 1);
    T_INT(g.dependents.off[4] - g.dependents.off[2], 0);
    T_INT(g.n_stages, 0);
    T_TRUE(bh_graph_is_handled(&g, 0));
    T_TRUE(!bh_graph_is_handled(&g, 1)); /* a barrier handles nothing */
    T_TRUE(!bh_graph_is_handled(&g, 3));
    bh_graph_fini(&g);
    bh_spec_free(spec);
}

static void groups_know_members_and_waiters(void **state)
{
    struct bh_graph g;
    (void)state;
    struct bh_spec *spec = fx_spec(5);
    add_group(spec, 2, (const size_t[]){0, 1});
    add_group(spec, 3, (const size_t[]){0, 1, 2});
    spec->nodes[2].group = spec->nodes[3].group = 1;
    spec->nodes[4].group = 2;
    spec->nodes[4].stage = 7;
    bh_graph_init(&g, spec);
    T_INT(g.member_of.off[1] - g.member_of.off[0], 2);
    T_INT(g.member_of.off[3] - g.member_of.off[2], 1);
    T_INT(g.member_of.items[g.member_of.off[2]], 1);
    T_INT(g.waiters.off[1] - g.waiters.off[0], 2);
    T_INT(g.waiters.items[g.waiters.off[0] + 1], 3);
    T_INT(g.waiters.items[g.waiters.off[1]], 4);
    T_INT(g.n_stages, 8);
    bh_graph_fini(&g);
    bh_spec_free(spec);
}

static void an_empty_spec_is_a_graph(void **state)
{
    struct bh_graph g;
    (void)state;
    struct bh_spec *spec = fx_spec(0);
    bh_graph_init(&g, spec);
    bh_graph_fini(&g);
    bh_spec_free(spec);
}

/* A spec that no plan can give ends the process: it would be a run that waits for ever. */
static void must_abort(struct bh_spec *spec)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        struct bh_graph g;
        (void)close(STDERR_FILENO);
        bh_graph_init(&g, spec);
        _exit(0);
    }
    T_TRUE(child > 0 && waitpid(child, &status, 0) == child);
    T_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    bh_spec_free(spec);
}

static void broken_specs_abort(void **state)
{
    (void)state;
    struct bh_spec *spec = fx_spec(1);
    fx_dep(spec, 0, 0, BH_DEP_BARRIER); /* waits for itself */
    must_abort(spec);
    spec = fx_spec(3);
    fx_dep(spec, 0, 1, BH_DEP_REQUIRED);
    fx_dep(spec, 1, 2, BH_DEP_REQUIRED);
    fx_dep(spec, 2, 0, BH_DEP_OPTIONAL);
    must_abort(spec);
    spec = fx_spec(2);
    add_group(spec, 2, (const size_t[]){0, 1}); /* a member waits for its own group */
    spec->nodes[1].group = 1;
    must_abort(spec);
    spec = fx_spec(2);
    fx_dep(spec, 1, 2, BH_DEP_REQUIRED); /* nobody */
    must_abort(spec);
    spec = fx_spec(2);
    spec->nodes[1].box = 2;
    must_abort(spec);
    spec = fx_spec(2);
    spec->nodes[1].group = 1; /* no group */
    must_abort(spec);
    spec = fx_spec(2);
    fx_dep(spec, 1, 0, BH_DEP_OPTIONAL);
    spec->nodes[0].left_out = true; /* and the other waits for it */
    must_abort(spec);
    spec = fx_spec(3);
    add_group(spec, 2, (const size_t[]){0, 1});
    spec->nodes[2].group = 1;
    spec->nodes[1].left_out = true;
    must_abort(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_are_turned_round),
        cmocka_unit_test(groups_know_members_and_waiters),
        cmocka_unit_test(an_empty_spec_is_a_graph),
        cmocka_unit_test(broken_specs_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
