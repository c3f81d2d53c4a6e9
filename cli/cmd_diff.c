/* SPDX-License-Identifier: Apache-2.0 */
/* bulkhead diff: what an agent changed in its box, or what two attempts did differently. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/kept_box.h"
#include "topologies/text_diff.h"
#include "workers/box/subids.h"
#include "workers/rootfs/changes.h"

#define TEXT_MAX (1 << 20)    /* of one file, to be compared line by line */
#define CHANGES_MAX 200000    /* more are counted, not listed */
#define BINARY_LOOK (8 << 10) /* a NUL in the first bytes makes a file binary; so does text that is no UTF-8 */

struct differ {
    const struct bh_args *args;
    struct bh_cli_run run;
    struct bh_run_facts facts;
    struct bh_kept one, other; /* `other` only where two attempts are compared */
    bool two, json, content, withheld;
    struct bh_val *changes; /* with -o json */
    size_t count[3], not_listed;
};

/* --- stacks --- */

static int add_layer(const struct differ *d, struct bh_view *v, const char *path, bool own, struct bh_err **err)
{
    if (bh_view_add(v, d->run.home.dirfd, path, own) == 0)
        return 0;
    if (errno == ENOENT)
        return bh_err_set(err, BH_E_NOT_FOUND, 0, "what the box stands on is gone: '%s/%s'", d->run.home.path, path);
    return bh_err_set(err, BH_E_IO, errno, "cannot open '%s/%s'", d->run.home.path, path);
}

static int add_layers(const struct differ *d, struct bh_view *v, const char *folder, char *const *names, size_t n,
                      bool own, struct bh_err **err)
{
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        BH_CLEANUP_FREE char *path = bh_path_join(folder, names[i]);
        rc = add_layer(d, v, path, own, err);
    }
    return rc;
}

/* The host may have moved on: then what is compared with is the host of today. */
static int add_base(const struct differ *d, struct bh_view *v, const struct bh_box_stand *s, struct bh_err **err)
{
    if (!s->base)
        return add_layers(d, v, "bases/images", s->base_layers, s->n_base_layers, false, err);
    BH_CLEANUP_FREE char *path = bh_path_join("bases", s->base);
    if ((bh_view_add_tree(v, "root", d->run.home.dirfd, path) < 0 && errno != ENOENT) ||
        bh_view_add_tree(v, "usr", AT_FDCWD, "/usr") < 0 ||
        (bh_view_add_tree(v, "opt", AT_FDCWD, "/opt") < 0 && errno != ENOENT))
        return bh_err_set(err, BH_E_IO, errno, "cannot open the base of the box");
    return 0;
}

struct depth {
    bool top, layers, snapshots; /* which of them are shown at all */
    bool own_layers, own_snapshots;
};

static int make_view(const struct differ *d, const struct bh_kept *kept, const struct depth *depth, struct bh_view *v,
                     struct bh_err **err)
{
    const struct bh_box_stand *s = &kept->stand;
    BH_CLEANUP_FREE char *layers = bh_asprintf("runs/%s/layers", d->run.id);
    int rc = depth->top ? add_layer(d, v, kept->upper, true, err) : 0;
    if (rc == 0 && depth->layers)
        rc = add_layers(d, v, layers, s->layers, s->n_layers, depth->own_layers, err);
    if (rc == 0 && depth->snapshots)
        rc = add_layers(d, v, "snapshots", s->snapshots, s->n_snapshots, depth->own_snapshots, err);
    return rc == 0 && kept->known ? add_base(d, v, s, err) : rc;
}

static bool same_list(char *const *a, size_t n, char *const *b, size_t m)
{
    for (size_t i = 0; i < n && n == m; i++) {
        if (!bh_streq(a[i], b[i]))
            return false;
    }
    return n == m;
}

static int check_same_base(const struct bh_kept *a, const struct bh_kept *b, struct bh_err **err)
{
    const struct bh_box_stand *x = &a->stand, *y = &b->stand;
    if (bh_streq(x->base, y->base) && same_list(x->base_layers, x->n_base_layers, y->base_layers, y->n_base_layers))
        return 0;
    return bh_err_set(err, BH_E_NOT_SUPPORTED, 0, "attempts %lld and %lld of '%s' stand on different bases",
                      (long long)a->attempt->attempt, (long long)b->attempt->attempt, a->agent->name);
}

/* --- contents --- */

static bool is_text(const struct bh_buf *b)
{
    size_t look = b->len < BINARY_LOOK ? b->len : BINARY_LOOK;
    return !memchr(b->data, '\0', look) && bh_utf8_check(b->data, b->len) == b->len;
}

/* 1: read. 0: nothing there to be read (another kind, or no such side). -1: too large, or unreadable. */
static int read_side(const struct bh_change_side *side, struct bh_buf *out)
{
    if (!side->there || !S_ISREG(side->st.st_mode))
        return 0;
    BH_CLEANUP_FD int fd = bh_change_open(side);
    return fd >= 0 && bh_read_all(fd, TEXT_MAX, out, NULL) == 0 ? 1 : -1;
}

/* The patch, or why there is none ("" where there is nothing to say). */
static const char *make_patch(const struct bh_change *c, struct bh_buf *patch)
{
    BH_CLEANUP_BUF struct bh_buf before = BH_BUF_INIT, name = BH_BUF_INIT;
    BH_CLEANUP_BUF struct bh_buf after = BH_BUF_INIT;
    int was = read_side(&c->before, &before), is = read_side(&c->after, &after);
    if (was < 0 || is < 0)
        return "too large to be shown, or unreadable";
    if (was == 0 && is == 0)
        return "";
    if (!is_text(&before) || !is_text(&after))
        return "binary";
    bh_escape_terminal(&name, c->path + 1, strlen(c->path + 1));
    bh_text_diff(name.data, before.data, before.len, after.data, after.len, patch);
    return "";
}

/* --- one change --- */

static const char *kind_of(const struct stat *st)
{
    switch (st->st_mode & S_IFMT) {
    case S_IFREG:
        return "file";
    case S_IFDIR:
        return "dir";
    case S_IFLNK:
        return "symlink";
    case S_IFIFO:
        return "fifo";
    case S_IFSOCK:
        return "socket";
    default:
        return "other";
    }
}

static void set_side(struct bh_val *v, const char *key, const struct bh_change_side *side)
{
    struct bh_val *to = bh_val_set(v, key, side->there ? bh_val_map() : bh_val_null());
    char mode[8];
    if (!side->there)
        return;
    snprintf(mode, sizeof(mode), "%04o", side->st.st_mode & 07777);
    BH_CLEANUP_FREE char *target = S_ISLNK(side->st.st_mode) ? bh_change_link(side) : NULL;
    bh_val_set_str(to, "kind", kind_of(&side->st));
    bh_val_set_int(to, "size", S_ISREG(side->st.st_mode) ? side->st.st_size : 0);
    bh_val_set_str(to, "mode", mode);
    bh_val_set_str(to, "target", target);
}

/* A name that is not UTF-8 is escaped, and says so. */
static void set_path(struct bh_val *v, const char *path)
{
    BH_CLEANUP_BUF struct bh_buf escaped = BH_BUF_INIT;
    bool clean = bh_utf8_check(path, strlen(path)) == strlen(path);
    if (!clean)
        bh_escape_terminal(&escaped, path, strlen(path));
    bh_val_set_str(v, "path", clean ? path : escaped.data);
    bh_val_set_bool(v, "escaped", !clean);
}

static void add_json(struct differ *d, const struct bh_change *c)
{
    BH_CLEANUP_BUF struct bh_buf patch = BH_BUF_INIT;
    struct bh_val *v = bh_val_add(d->changes, bh_val_map());
    const char letter[] = {"AMD"[c->kind], '\0'};
    bh_val_set_str(v, "change", letter);
    set_path(v, c->path);
    set_side(v, "before", &c->before);
    set_side(v, "after", &c->after);
    bh_val_set_bool(v, "unread", c->unread);
    if (!d->content)
        return;
    const char *why = make_patch(c, &patch);
    bh_val_set_str(v, "diff", patch.len > 0 ? patch.data : NULL);
    bh_val_set_str(v, "no_diff", *why ? why : NULL);
}

/* What is to be said beyond the path: of modes and links, which have no lines. */
static void print_about(const struct bh_change *c)
{
    const struct bh_change_side *a = &c->before, *b = &c->after;
    BH_CLEANUP_FREE char *target = b->there && S_ISLNK(b->st.st_mode) ? bh_change_link(b) : NULL;
    if (target) {
        printf(" -> ");
        bh_cli_print_escaped(target);
    } else if (b->there && !S_ISREG(b->st.st_mode) && !S_ISDIR(b->st.st_mode)) {
        printf(" (%s)", kind_of(&b->st));
    }
    if (c->unread)
        printf(" (nested too deep: what is in it was not looked at)");
    if (c->kind != BH_CHANGE_CHANGED)
        return;
    if ((a->st.st_mode & S_IFMT) != (b->st.st_mode & S_IFMT))
        printf(" (was a %s)", kind_of(&a->st));
    else if ((a->st.st_mode & 07777) != (b->st.st_mode & 07777) && !S_ISLNK(b->st.st_mode))
        printf(" (mode %04o, was %04o)", b->st.st_mode & 07777, a->st.st_mode & 07777);
}

static void print_patch(const struct bh_change *c)
{
    BH_CLEANUP_BUF struct bh_buf patch = BH_BUF_INIT;
    const char *why = make_patch(c, &patch);
    if (*why)
        printf("  (%s)\n", why);
    for (const char *p = patch.data; *p;) {
        size_t len = strcspn(p, "\n");
        BH_CLEANUP_BUF struct bh_buf line = BH_BUF_INIT;
        bh_escape_terminal(&line, p, len);
        puts(line.data);
        p += len + (p[len] == '\n');
    }
}

static int on_change(void *arg, const struct bh_change *c)
{
    struct differ *d = arg;
    size_t listed = d->count[0] + d->count[1] + d->count[2] - d->not_listed;
    d->count[c->kind]++;
    if (d->withheld)
        return 0;
    if (listed >= CHANGES_MAX) {
        d->not_listed++;
        return 0;
    }
    if (d->json) {
        add_json(d, c);
        return 0;
    }
    printf("%c ", "AMD"[c->kind]);
    bh_cli_print_escaped(c->path);
    print_about(c);
    putchar('\n');
    if (d->content)
        print_patch(c);
    return 0;
}

/* --- the answer --- */

static void print_json(struct differ *d)
{
    BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
    BH_CLEANUP_FREE char *box = bh_home_path(&d->run.home, d->one.path);
    BH_CLEANUP_FREE char *other = d->two ? bh_home_path(&d->run.home, d->other.path) : NULL;
    bh_val_set_str(v, "run", d->run.id);
    bh_val_set_str(v, "agent", d->one.agent->name);
    bh_val_set_int(v, "attempt", d->one.attempt->attempt);
    bh_val_set(v, "with", d->two ? bh_val_int(d->other.attempt->attempt) : bh_val_null());
    bh_val_set_str(v, "box", box);
    bh_val_set_str(v, "with_box", other);
    bh_val_set_str(v, "label", d->one.agent->label);
    bh_val_set_int(v, "sharing", (int64_t)d->one.n_sharing);
    bh_val_set_bool(v, "base_known", d->one.known);
    bh_val_set_bool(v, "withheld", d->withheld);
    bh_val_set_int(v, "added", (int64_t)d->count[BH_CHANGE_ADDED]);
    bh_val_set_int(v, "changed", (int64_t)d->count[BH_CHANGE_CHANGED]);
    bh_val_set_int(v, "removed", (int64_t)d->count[BH_CHANGE_REMOVED]);
    bh_val_set_int(v, "not_listed", (int64_t)d->not_listed);
    bh_val_set(v, "changes", bh_val_copy(d->changes));
    bh_cli_print_json(v);
}

static void print_notes(const struct differ *d)
{
    const char *name = d->one.agent->name;
    fflush(stdout);
    if (d->withheld)
        fprintf(stderr,
                "%zu added, %zu changed, %zu removed; what they are called is withheld: '%s' is tainted "
                "(--content shows all of it)\n",
                d->count[BH_CHANGE_ADDED], d->count[BH_CHANGE_CHANGED], d->count[BH_CHANGE_REMOVED], name);
    if (d->not_listed > 0)
        fprintf(stderr, "%zu more are not listed\n", d->not_listed);
    if (bh_args_has(d->args, "quiet"))
        return;
    if (!d->one.known || (d->two && !d->other.known))
        fprintf(stderr, "nothing says what the box stood on: all that its topmost layer holds counts as added\n");
    size_t n = 0, runs = 0;
    const struct bh_attempt_row *rows = bh_run_facts_attempts(&d->facts, name, &n);
    for (size_t i = 0; i < n; i++)
        runs += !rows[i].kind;
    if (d->one.attempt->kind)
        fprintf(stderr, "this is the box of its %s\n", d->one.attempt->kind);
    else if (runs > 1 && !d->two)
        fprintf(stderr, "this is attempt %lld, try %lld\n", (long long)d->one.attempt->attempt,
                (long long)d->one.attempt->try_);
    if (d->one.n_sharing > 1)
        fprintf(stderr, "box '%s' was shared by %zu agents: this is what all of them did\n", d->one.attempt->box,
                d->one.n_sharing);
    if (d->count[0] + d->count[1] + d->count[2] == 0)
        fprintf(stderr, "nothing differs\n");
}

static int compare(struct differ *d, struct bh_err **err)
{
    const struct bh_box_stand *x = &d->one.stand, *y = &d->other.stand;
    struct bh_view *before = bh_view_new(), *after = bh_view_new();
    bool all = bh_args_has(d->args, "from-base");
    struct depth lower = {.snapshots = !all}, whole = {.top = true, .layers = true, .snapshots = true};
    whole.own_layers = true;
    whole.own_snapshots = all;
    int rc = 0;
    if (d->two) {
        whole.own_layers = !same_list(x->layers, x->n_layers, y->layers, y->n_layers);
        whole.own_snapshots |= !same_list(x->snapshots, x->n_snapshots, y->snapshots, y->n_snapshots);
        rc = check_same_base(&d->one, &d->other, err);
    }
    if (rc == 0)
        rc = make_view(d, &d->one, d->two ? &whole : &lower, before, err);
    if (rc == 0)
        rc = make_view(d, d->two ? &d->other : &d->one, &whole, after, err);
    if (rc == 0)
        rc = bh_changes_walk(before, after, on_change, d, err);
    bh_view_free(before);
    bh_view_free(after);
    return rc;
}

/* --- options --- */

/* `--attempt N [M]`: M is the third operand, or a second --attempt. */
static int read_attempts(struct differ *d, int64_t ret[2], struct bh_err **err)
{
    size_t n = 0;
    BH_CLEANUP_FREE const char **given = bh_args_all(d->args, "attempt", &n);
    const char *second = n > 1 ? given[1] : d->args->n_operands > 2 ? d->args->operands[2] : NULL;
    int rc = n > 0 ? bh_kept_attempt(given[0], &ret[0], err) : 0;
    if (rc == 0 && (n > 2 || (second && n == 0) || (n > 1 && d->args->n_operands > 2))) {
        rc = bh_err_set(err, BH_E_USAGE, 0, "'bulkhead diff' compares two attempts at most");
        bh_err_hint(err, "write bulkhead diff RUN AGENT --attempt 1 2");
    }
    if (rc == 0 && second) {
        d->two = true;
        rc = bh_kept_attempt(second, &ret[1], err);
    }
    return rc;
}

static int open_all(struct differ *d, struct bh_err **err)
{
    int64_t attempts[2] = {BH_KEPT_ANY, BH_KEPT_ANY};
    const char *agent = d->args->operands[1];
    int rc = read_attempts(d, attempts, err);
    if (rc == 0)
        rc = bh_cli_run_open(d->args, d->args->operands[0], &d->run, err);
    if (rc == 0)
        rc = bh_run_facts_read(&d->run, &d->facts, err);
    if (rc == 0)
        rc = bh_kept_find(&d->run, &d->facts, agent, attempts[0], &d->one, err);
    if (rc == 0 && d->two)
        rc = bh_kept_find(&d->run, &d->facts, agent, attempts[1], &d->other, err);
    return rc;
}

static int diff(const struct bh_args *args)
{
    struct bh_err *err = NULL;
    struct differ d = {.args = args, .run = {.home = {.dirfd = -1}}};
    d.json = bh_args_json(args);
    d.content = bh_args_has(args, "content");
    d.changes = bh_val_list();
    (void)bh_subids_enter(); /* what a box holds may be theirs */
    int rc = open_all(&d, &err);
    if (rc == 0) {
        d.withheld = !d.content && !bh_streq(d.one.agent->label, "trusted");
        rc = compare(&d, &err);
    }
    if (rc == 0 && d.json)
        print_json(&d);
    else if (rc == 0)
        print_notes(&d);
    bh_val_free(d.changes);
    bh_kept_fini(&d.one);
    bh_kept_fini(&d.other);
    bh_run_facts_fini(&d.facts);
    bh_cli_run_close(&d.run);
    return rc == 0 ? 0 : bh_cli_fail(args, err);
}

static const struct bh_opt opts[] = {
    {"attempt", 0, BH_OPT_REPEATED, "N [M]",
     "the box of this attempt, 0: of a failed setup or preparation; with M: what attempt M has otherwise than N"},
    {"from-base", 0, BH_OPT_FLAG, NULL, "also what setup and prepare changed before it started"},
    {"content", 0, BH_OPT_FLAG, NULL, "the lines too, as a unified diff; also of tainted agents"},
};

const struct bh_cmd bh_cmd_diff = {
    .name = "diff",
    .operands = "RUN AGENT [M]",
    .summary = "files that changed in a box, or between two attempts",
    .example = "bulkhead diff @latest fixer\nbulkhead diff @latest fixer --attempt 1 2 --content",
    .more = "A: added, M: changed, D: removed; a name that ends in '/' is a directory with all in it. It looks at a\n"
            "box that was kept ('keep: always', and by default of an agent that failed), else at the last state that\n"
            "a shared box was frozen in, and compares with what the box started from: where there was a setup or a\n"
            "preparation, the state after it. Owners are not compared.",
    .opts = opts,
    .n_opts = BH_ARRAY_LEN(opts),
    .min_operands = 2,
    .max_operands = 3,
    .run = diff,
};
