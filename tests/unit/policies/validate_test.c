/* SPDX-License-Identifier: Apache-2.0 */
/* What each kind of content is, and what only looks like it. */
#include "base/buf.h"
#include "base/mem.h"
#include "policies/validate.h"
#include "tests/support/t.h"

static void check(enum bh_validate_kind kind, const char *text, size_t len, const char *want)
{
    struct bh_lease_validate v = BH_LEASE_VALIDATE_NOTHING;
    v.kind = kind;
    BH_CLEANUP_FREE char *problem = bh_validate_bytes(&v, text, len);
    if ((want == NULL) != (problem == NULL) || (want && !strstr(problem, want)))
        fail_msg("'%.60s' gave '%s', not '%s'", text, problem ? problem : "-", want ? want : "-");
}

#define CHECK(kind, text, want) check(BH_VALIDATE_##kind, text, sizeof(text) - 1, want)

static void json(void **state)
{
    (void)state;
    CHECK(JSON, "{\"a\":[1,-0.5e+3,true,false,null,\"\\u00e9\\n\"],\"b\":{}}\n", NULL);
    CHECK(JSON, " [] ", NULL);
    CHECK(JSON, "\"x\"", NULL);
    CHECK(JSON, "0", NULL);
    CHECK(JSON, "", "ends inside");
    CHECK(JSON, "{\"a\":", "ends inside");
    CHECK(JSON, "[1,]", "stops being JSON");
    CHECK(JSON, "{,}", "stops being JSON");
    CHECK(JSON, "{\"a\" 1}", "stops being JSON");
    CHECK(JSON, "[1]\n[2]", "line 2 is where");
    CHECK(JSON, "01", "stops being JSON");
    CHECK(JSON, "1.", "ends inside");
    CHECK(JSON, ".5", "stops being JSON");
    CHECK(JSON, "+1", "stops being JSON");
    CHECK(JSON, "NaN", "stops being JSON");
    CHECK(JSON, "nul", "ends inside");
    CHECK(JSON, "'a'", "stops being JSON");
    CHECK(JSON, "\"a\nb\"", "stops being JSON");
    CHECK(JSON, "\"\\x\"", "stops being JSON");
    CHECK(JSON, "\"\\u12g4\"", "stops being JSON");
    CHECK(JSON, "[1}", "stops being JSON");
    CHECK(JSON, "\"\xff\"", "not UTF-8");
    CHECK(JSON, "\xef\xbb\xbf{}", "stops being JSON");
}

static void depth(void **state)
{
    (void)state;
    char text[2 * (BH_VALIDATE_DEPTH + 1)];
    memset(text, '[', BH_VALIDATE_DEPTH);
    memset(text + BH_VALIDATE_DEPTH, ']', BH_VALIDATE_DEPTH);
    check(BH_VALIDATE_JSON, text, 2 * BH_VALIDATE_DEPTH, NULL);
    memset(text, '[', BH_VALIDATE_DEPTH + 1);
    memset(text + BH_VALIDATE_DEPTH + 1, ']', BH_VALIDATE_DEPTH + 1);
    check(BH_VALIDATE_JSON, text, sizeof(text), "stops being JSON");
}

static void jsonl(void **state)
{
    (void)state;
    CHECK(JSONL, "", NULL);
    CHECK(JSONL, "{\"a\":1}\n[2]\n3", NULL);
    CHECK(JSONL, "{\"a\":1}\r\n", NULL);
    CHECK(JSONL, "1\n\n2\n", "line 2 is no JSON");
    CHECK(JSONL, "1\n{\"a\":\n1}\n", "line 2 is no JSON");
    CHECK(JSONL, "1 2\n", "line 1 is no JSON");
}

static void csv(void **state)
{
    (void)state;
    CHECK(CSV, "", NULL);
    CHECK(CSV, "a,b\n1,2\n", NULL);
    CHECK(CSV, "a,b\r\n\"x, \"\"y\"\"\nz\",2\r\n", NULL);
    CHECK(CSV, "a\n\"\"\n", NULL);
    CHECK(CSV, "a,b\n1\n", "record 2 has 1 fields, the first has 2");
    CHECK(CSV, "a,b\n\"1,2\n", "quotes that do not match");
    CHECK(CSV, "a,b\n1\"2,3\n", "quotes that do not match");
    CHECK(CSV, "a,b\n\"1\"2,3\n", "quotes that do not match");
    CHECK(CSV, "a,\xc3\n", "not UTF-8");
}

static void text(void **state)
{
    (void)state;
    CHECK(TEXT, "hello\tyou\r\n\xc3\xa9\n", NULL);
    CHECK(TEXT, "a\x1b[31mred\n", "control character");
    CHECK(TEXT, "a\0b", "control character");
    CHECK(TEXT, "one\ntwo\x7f\n", "line 2 has a control character");
    CHECK(TEXT,
          "\xc2\x9b"
          "31m",
          "control character");               /* CSI as one character */
    CHECK(TEXT, "\xed\xa0\x80", "not UTF-8"); /* a surrogate */
    CHECK(BINARY, "a\0\xff", NULL);
    CHECK(ANY, "a\0\xff", NULL);
    CHECK(DIR, "x", "it is a file, not a folder");
}

#define DIFF "diff --git a/src/x.c b/src/x.c\nindex 1..2 100644\n--- a/src/x.c\n+++ b/src/x.c\n"

static void patch(void **state)
{
    (void)state;
    CHECK(PATCH, DIFF "@@ -1,2 +1,2 @@ f\n a\n-b\n+c\n", NULL);
    CHECK(PATCH, "--- x\n+++ x\n@@ -1 +1 @@\n-b\n+c\n\\ No newline at end of file\n", NULL);
    CHECK(PATCH, "diff --git a/e b/e\nnew file mode 100644\nindex 0..1\n", NULL); /* an empty file */
    CHECK(PATCH, "diff --git a/o b/n\nsimilarity index 100%\nrename from o\nrename to n\n", NULL);
    CHECK(PATCH, "--- /dev/null\n+++ b/n\n@@ -0,0 +1,1 @@\n+x\n", NULL);
    CHECK(PATCH, DIFF "@@ -1,1 +1,2 @@\n a\n+--- a/../../etc/passwd\n", NULL); /* a line of the file */
    CHECK(PATCH, "hello\n", "changes no file");
    CHECK(PATCH, "", "changes no file");
    CHECK(PATCH, DIFF "@@ -1,2 +1,2 @@\n a\n", "ends inside of a hunk");
    CHECK(PATCH, DIFF "@@ -1 +1 @@\nx\n", "is none of a hunk");
    CHECK(PATCH, DIFF "@@ -1,x +1 @@\n", "is no head of a hunk");
    CHECK(PATCH, "@@ -1 +1 @@\n-a\n+b\n", "a hunk of no file");
    CHECK(PATCH, "--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-b\n+c\n", "not clean and relative");
    CHECK(PATCH, "--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-b\n+c\n", "not clean and relative");
    CHECK(PATCH, "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n",
          "something else than a plain file");
    CHECK(PATCH, "diff --git a/s b/s\nnew file mode 160000\n", "something else than a plain file");
    CHECK(PATCH, "diff --git a/o b/n\nrename from o\nrename to ../n\n", "not clean and relative");
    CHECK(PATCH, "--- a/.git/config\n+++ b/.git/config\n@@ -1 +1 @@\n-b\n+c\n", "git's own");
    CHECK(PATCH, "--- a/x\n+++ b/sub/.git/hooks/pre-commit\n@@ -1 +1 @@\n-b\n+c\n", "git's own");
    CHECK(PATCH, "x\n\nd\n", "changes no file"); /* lines that are shorter than any head */
    CHECK(PATCH, "diff --git a/b b/b\nGIT binary patch\nliteral 3\n", "binary part");
    CHECK(PATCH, "--- \"a/\\303\"\n+++ \"b/\\303\"\n", "in quotes");
    CHECK(PATCH, "--- a/x\x1b[2J/../y\n", "not clean and relative");
}

static void paths_and_files(void **state)
{
    (void)state;
    char *globs[] = {(char[]){"src/*.c"}, (char[]){"doc/**"}};
    struct bh_lease_validate v = BH_LEASE_VALIDATE_NOTHING;
    v.kind = BH_VALIDATE_PATCH;
    v.paths = globs;
    v.n_paths = 2;
    v.max_files = 1;
    static const struct {
        const char *text, *want;
    } rows[] = {
        {DIFF "@@ -1 +1 @@\n-b\n+c\n", NULL},
        {"--- a/doc/a/b.md\n+++ b/doc/a/b.md\n@@ -1 +1 @@\n-b\n+c\n", NULL},
        {"--- a/src/y/x.c\n+++ b/src/y/x.c\n@@ -1 +1 @@\n-b\n+c\n", "'paths' does not allow"},
        {"diff --git a/src/x.c b/Makefile\nrename from src/x.c\nrename to Makefile\n", "'paths' does not allow"},
        {DIFF "@@ -1 +1 @@\n-b\n+c\n--- a/doc/x\n+++ b/doc/x\n@@ -1 +1 @@\n-b\n+c\n", "changes 2 files, more than 1"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        BH_CLEANUP_FREE char *problem = bh_validate_bytes(&v, rows[i].text, strlen(rows[i].text));
        if ((rows[i].want == NULL) != (problem == NULL) || (problem && !strstr(problem, rows[i].want)))
            fail_msg("row %zu gave '%s'", i, problem ? problem : "-");
    }
}

static void sizes(void **state)
{
    (void)state;
    struct bh_lease_validate v = BH_LEASE_VALIDATE_NOTHING;
    v.max_size = 4;
    v.max_lines = 2;
    static const struct {
        const char *text, *want;
    } rows[] = {{"", NULL},
                {"a\nb\n", NULL},
                {"a\nb", NULL},
                {"abcde", "has 5 bytes, more than 4"},
                {"a\n\nb", "has 3 lines, more than 2"},
                {"\n\n", NULL},
                {"\n\n\n", "has 3 lines"}};
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        BH_CLEANUP_FREE char *problem = bh_validate_bytes(&v, rows[i].text, strlen(rows[i].text));
        if ((rows[i].want == NULL) != (problem == NULL) || (problem && !strstr(problem, rows[i].want)))
            fail_msg("row %zu gave '%s'", i, problem ? problem : "-");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json), cmocka_unit_test(depth), cmocka_unit_test(jsonl),           cmocka_unit_test(csv),
        cmocka_unit_test(text), cmocka_unit_test(patch), cmocka_unit_test(paths_and_files), cmocka_unit_test(sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
