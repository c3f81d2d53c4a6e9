/* SPDX-License-Identifier: Apache-2.0 */
/* What command lines install: only what they say outright, and never a conflict where one version would do. */
#include "topologies/installs.h"

#include "base/buf.h"
#include "base/mem.h"
#include "tests/support/t.h"

static char *installs_text(const char *const *argv, size_t n)
{
    struct bh_arena *arena = bh_arena_new();
    struct bh_installs list = {0};
    struct bh_buf out = BH_BUF_INIT;
    bh_installs_of(argv, n, "/workspace", arena, &list);
    for (size_t i = 0; i < list.len; i++)
        bh_buf_addf(&out, "%s%s %s %s @%s", i > 0 ? "; " : "", list.items[i].kind, list.items[i].name,
                    list.items[i].version.text, list.items[i].place);
    bh_arena_free(arena);
    return bh_buf_take(&out);
}

static const struct {
    const char *shell, *want;
} lines[] = {
    /* npm */
    {"npm install left-pad@1.3.0", "npm left-pad 1.3.0 @/workspace"},
    {"npm i --no-audit --prefix ./app @types/node@18.0.0 b@^2.1.0",
     "npm @types/node 18.0.0 @/workspace/app; npm b ^2.1.0 @/workspace/app"},
    {"cd app && npm install --offline ../d3-format-2.0.0.tgz", "npm d3-format 2.0.0 @/workspace/app"},
    {"npm -C /srv install a@1.0.0", "npm a 1.0.0 @/srv"},
    {"(cd a; npm i x@1.0.0); npm i x@2.0.0", "npm x 1.0.0 @/workspace/a; npm x 2.0.0 @/workspace"},
    {"npm install -g typescript@5.1.6", "npm typescript 5.1.6 @global"},
    {"[ -d node_modules/x ] || npm install --offline /workspace/base-64-1.0.0.tgz >log 2>&1",
     "npm base-64 1.0.0 @/workspace"},
    {"pnpm add a@1.2; yarn add b@1.x", "npm a 1.2 @/workspace; npm b 1.x @/workspace"},
    {"npm install", ""},
    {"npm ci && npm install lodash", ""},
    {"npm install a@latest b@'>=1 <2' git+ssh://git@github.com/x/y.git#1.2.3 ./dir@1.0.0/z", ""},
    {"npm install \"a@$V\"; npm run build@1.0.0; npm publish a@1.0.0", ""},
    {"cd $D && npm i a@1.0.0", ""},
    {"cd .. && npm i a@1.0.0", ""},
    /* pip */
    {"pip install 'Foo_Bar[x]==1.4.0' b~=2.1 c>=1", "pip foo-bar 1.4.0 @; pip b 2.1 @"},
    {"pip3.11 install a==1.2 -r req==1.txt", "pip a 1.2 @"},
    {"python3 -m venv /opt/venv && /opt/venv/bin/pip install -q a==1", "pip a 1 @/opt/venv"},
    {"/opt/venv/bin/python -m pip install a==1", "pip a 1 @/opt/venv"},
    {"python3 -m pip install --user a==1", "pip a 1 @global"},
    {". venv/bin/activate; pip install a==1", "pip a 1 @/workspace/venv"},
    {"pip install --target=/lib 'a==1.*' ./wheels/My_Pkg-2.0.1-py3-none-any.whl s-1.1.tar.gz",
     "pip a 1.* @/lib; pip my-pkg 2.0.1 @/lib; pip s 1.1 @/lib"},
    {"pip install 'a==1.2; python_version<\"3.9\"' 'b>=1,<2' 'c==1,!=2'", "pip a 1.2 @"},
    {"pip install a b && pip download c==1", ""},
    /* apt, dpkg, cargo, gem */
    {"sudo DEBIAN_FRONTEND=noninteractive apt-get install -y -o X=1 curl=7.88.1-10+deb12u5 wget",
     "apt curl 7.88.1-10+deb12u5 @"},
    {"dpkg -i /tmp/jq_1.6-2.1_amd64.deb; apt-get update", "apt jq 1.6-2.1 @"},
    {"cargo install ripgrep --version 13.0.0 --locked", "cargo ripgrep 13.0.0 @"},
    {"cargo install --root /opt fd-find@8.7.0", "cargo fd-find 8.7.0 @/opt"},
    {"gem install rake -v 13.0.6 && gem install json:2.6.3", "gem rake 13.0.6 @; gem json 2.6.3 @"},
    {"gem install ./rack-2.2.8.gem", "gem rack 2.2.8 @"},
    {"gem install rake -v '~> 13.0'; cargo build --version 1", ""},
    /* what only looks like it */
    {"echo npm install a@1.0.0 # npm install a@1.0.0", ""},
    {"cat > x.sh <<'E'\nnpm install a@1.0.0\nE\n", ""},
    {"X=$(npm install a@1.0.0) true", ""},
    {"if true; then npm i a@1.0.0; fi", "npm a 1.0.0 @/workspace"},
    {"npm i \\\n  a@1.0.0", "npm a 1.0.0 @/workspace"},
    {"'unclosed npm i a@1.0.0", ""},
    {"", ""},
};

static void what_lines_install(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(lines); i++) {
        const char *const argv[] = {"/bin/sh", "-ceu", lines[i].shell};
        char *got = installs_text(argv, 3);
        if (strcmp(got, lines[i].want) != 0)
            fail_msg("%s\n gives: %s\n wanted: %s", lines[i].shell, got, lines[i].want);
        bh_free(got);
    }
}

static void lists_are_no_shell(void **state)
{
    (void)state;
    const char *const plain[] = {"npm", "install", "a@1.0.0", "b@{{params.v}}"};
    const char *const bash[] = {"bash", "-c", "npm i a@2.0.0"};
    char *got = installs_text(plain, 4);
    T_STR(got, "npm a 1.0.0 @/workspace");
    bh_free(got);
    got = installs_text(bash, 3);
    T_STR(got, "npm a 2.0.0 @/workspace");
    bh_free(got);
    got = installs_text(plain, 0);
    T_STR(got, "");
    bh_free(got);
}

static const struct {
    const char *a, *b;
    bool conflict;
} pairs[] = {
    {"1.2.3", "1.2.3", false},     {"1.2.3", "1.2.4", true},    {"1.2.3", "v1.2.3", false},
    {"1.2.3-rc.1", "1.2.3", true}, {"1.2", "1.2.9", false},     {"1.2", "1.3.0", true},
    {"1", "1.9", false},           {"1", "2.0", true},          {"1.x", "1.4.2", false},
    {"1.x", "2.4.2", true},        {"^1.2.3", "1.9.0", false},  {"^1.2.3", "2.0.0", true},
    {"^0.2.3", "0.3.0", true},     {"^0.2.3", "0.2.9", false},  {"~1.2.3", "1.2.9", false},
    {"~1.2.3", "1.3.0", true},     {"^1.2.3", "~1.4.0", false}, {"latest", "1.0.0", false},
    {">=1", "0.9.0", false},       {"1.0.0", "1", false},       {"99999999999999999999", "1.0.0", false},
};

static void versions_of_npm(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(pairs); i++) {
        struct bh_version a = bh_version_npm(pairs[i].a), b = bh_version_npm(pairs[i].b);
        if (bh_versions_conflict(&a, &b) != pairs[i].conflict || bh_versions_conflict(&b, &a) != pairs[i].conflict)
            fail_msg("%s and %s: expected %sconflict", pairs[i].a, pairs[i].b, pairs[i].conflict ? "" : "no ");
    }
}

static void versions_of_pip(void **state)
{
    (void)state;
    struct bh_version one = bh_version_pip("==", "1.0"), same = bh_version_pip("==", "1.0.0"),
                      other = bh_version_pip("==", "1.0.1"), like = bh_version_pip("~=", "1.0.2"),
                      any = bh_version_pip("~=", "1.0"), post = bh_version_pip("==", "1.0.post1"),
                      vague = bh_version_pip("~=", "1");
    assert_false(bh_versions_conflict(&one, &same));
    assert_true(bh_versions_conflict(&one, &other));
    assert_false(bh_versions_conflict(&like, &other));
    assert_false(bh_versions_conflict(&any, &other));
    assert_true(bh_versions_conflict(&one, &post));
    assert_false(bh_versions_conflict(&vague, &other));
}

static void only_the_same_place_conflicts(void **state)
{
    (void)state;
    struct bh_install a = {.kind = "npm", .place = "/a", .name = "x", .version = bh_version_npm("1.0.0")}, b = a;
    b.version = bh_version_npm("2.0.0");
    assert_true(bh_installs_conflict(&a, &b));
    b.place = "/b";
    assert_false(bh_installs_conflict(&a, &b));
    b = a;
    b.version = bh_version_npm("2.0.0");
    b.name = "y";
    assert_false(bh_installs_conflict(&a, &b));
    b.name = "x";
    b.kind = "pip";
    assert_false(bh_installs_conflict(&a, &b));
    struct bh_version debian = bh_version_opaque("7.88-1"), later = bh_version_opaque("7.88-2");
    assert_true(bh_versions_conflict(&debian, &later));
    assert_false(bh_versions_conflict(&debian, &debian));
    assert_false(bh_versions_conflict(&debian, &a.version));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lines_install),
        cmocka_unit_test(lists_are_no_shell),
        cmocka_unit_test(versions_of_npm),
        cmocka_unit_test(versions_of_pip),
        cmocka_unit_test(only_the_same_place_conflicts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
