/* SPDX-License-Identifier: Apache-2.0 */
/* Twelve public crews in our grammar: they plan as they stand, and their walls are where a person would put them. */
#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "plan_support.h"

#define UPSTREAM "https://api.anthropic.com"
#define ANTHROPIC "variable ANTHROPIC_API_KEY; upstream " UPSTREAM "; secret anthropic_key to " UPSTREAM

static const struct {
    const char *file;
    const char *boxes;   /* "box: agents" in order */
    const char *tainted; /* agents whose label is tainted, in order */
    const char *asks;    /* joined by "; " */
} crews[] = {
    {"01-crewai-marketing-strategy.yaml",
     "research: research\ncrew: understanding\ncrew-tainted: strategy ideas copywriter\n",
     "research strategy ideas copywriter", ANTHROPIC "; network public"},
    {"04-crewai-write-a-book.yaml", "researcher: researcher\ncrew-tainted: outliner join\ndig: dig\nwrite: write\n",
     "researcher outliner dig write join", ANTHROPIC "; network public"},
    {"05-crewai-self-evaluation-loop.yaml", "crew: bard verifier\n", "", ANTHROPIC},
    {"06-crewai-flow-router.yaml", "research: research\ncrew-tainted: router followup\n", "research router followup",
     ANTHROPIC "; network public"},
    {"08-cagent-dev-team.yaml", "crew: team\n", "", ANTHROPIC},
    {"10-cagent-pr-reviewer.yaml",
     "review-bugs: review-bugs\nreview-silent-failures: review-silent-failures\nreview-simplify: review-simplify\n"
     "review-comments: review-comments\nreview-types: review-types\nreview-tests: review-tests\ncrew-tainted: merge\n",
     "review-bugs review-silent-failures review-simplify review-comments review-types review-tests merge", ANTHROPIC},
    {"13-maf-mathchat.yaml", "crew: student teacher\n", "", ANTHROPIC},
    {"17-agentspec-mapnode.yaml", "summarise: summarise\ncrew-tainted: collect\n", "summarise collect",
     "upstream http://gpu1.lab:8000"},
    {"18-agentspec-catchexception.yaml", "crew: flaky handler finish\n", "", ""},
    {"20-praison-robustness.yaml", "crew: research enrich write\n", "", ANTHROPIC},
    {"24-inspect-eval-set.yaml", "sample-sonnet: sample-sonnet\nsample-opus: sample-opus\n",
     "sample-sonnet sample-opus", ANTHROPIC},
    {"26-swebench-best-of-n.yaml", "fixer: fixer\n", "fixer", ANTHROPIC "; network registry.npmjs.org:443"},
};

static void read_crew(const char *file, struct bh_buf *out)
{
    const char *source = getenv("BH_SOURCE");
    char *path = bh_asprintf("%s/tests/unit/topologies/crews/%s", source ? source : ".", file);
    T_OK(bh_read_file(path, BH_PIPELINE_MAX_BYTES, out, &err));
    bh_free(path);
}

static char *tainted(const struct planned *x)
{
    struct bh_buf out = BH_BUF_INIT;
    for (size_t i = 0; i < x->plan->n_agents; i++) {
        if (x->plan->agents[i].label == BH_TAINTED)
            bh_buf_addf(&out, "%s%s", out.len ? " " : "", x->plan->agents[i].name);
    }
    return bh_buf_take(&out);
}

static char *asks(const struct planned *x)
{
    struct bh_buf out = BH_BUF_INIT;
    for (size_t i = 0; i < x->plan->n_asks; i++) {
        T_TRUE(x->plan->asks[i].pos.line > 0);
        bh_buf_addf(&out, "%s%s", i ? "; " : "", x->plan->asks[i].s);
    }
    return bh_buf_take(&out);
}

static void test_crews(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(crews); i++) {
        struct planned x;
        BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
        read_crew(crews[i].file, &text);
        plan_good(&x, text.data);
        BH_CLEANUP_FREE char *boxes = plan_boxes(&x), *labels = tainted(&x), *asked = asks(&x);
        if (strcmp(boxes, crews[i].boxes) != 0 || strcmp(labels, crews[i].tainted) != 0 ||
            strcmp(asked, crews[i].asks) != 0)
            fail_msg("%s:\n%s%s\n%s", crews[i].file, boxes, labels, asked);
        for (size_t b = 0; b < x.plan->n_boxes; b++)
            T_TRUE(x.plan->boxes[b].label == BH_TRUSTED || x.plan->boxes[b].n_powers == 0);
        /* all that is said of them is what this version cannot carry out yet, and which endpoints have private data */
        size_t n = x.pipeline->n_later;
        for (size_t w = 0; w < x.plan->n_warnings; w++)
            n += bh_err_code(x.plan->warnings[w]) == BH_E_TRUST;
        T_INT(x.plan->n_warnings, n);
        plan_free(&x);
    }
}

static void check_after(const struct planned *x, const char *agent, const char *want)
{
    char *after = plan_after(x, agent);
    T_STR(after, want);
    bh_free(after);
}

static void test_edges_of_some(void **state)
{
    (void)state;
    struct planned x;
    BH_CLEANUP_BUF struct bh_buf book = BH_BUF_INIT, robust = BH_BUF_INIT, review = BH_BUF_INIT;
    read_crew("04-crewai-write-a-book.yaml", &book);
    plan_good(&x, book.data);
    check_after(&x, "dig", "outliner:data");
    check_after(&x, "write", "outliner:data dig:data");
    check_after(&x, "join", "write:optional");
    plan_free(&x);
    read_crew("20-praison-robustness.yaml", &robust);
    plan_good(&x, robust.data);
    check_after(&x, "write", "research:data enrich:optional");
    plan_free(&x);
    read_crew("10-cagent-pr-reviewer.yaml", &review);
    plan_good(&x, review.data);
    T_INT(plan_agent(&x, "merge")->n_after, 6);
    T_TRUE(plan_box(&x, "review-bugs")->private_);
    T_STR(plan_agent(&x, "review-tests")->steered_by[0], "tests.txt");
    plan_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crews),
        cmocka_unit_test(test_edges_of_some),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
