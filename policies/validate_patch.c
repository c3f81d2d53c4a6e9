/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A unified diff, as far as it matters what it can do where it is applied: which files it names, and that it makes none
 * of them anything but a plain file. Lines of hunks are counted, so that a line inside of one is never taken for a
 * header.
 */
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/units.h"
#include "policies/validate.h"

struct patch {
    const struct bh_lease_validate *v;
    struct bh_map *files;
    int64_t n_files, left_old, left_new; /* left: lines of the hunk */
    size_t line, hunks;
    bool in_file; /* a header named a file */
    char *problem;
};

/* The line is named and not quoted: what stands there is somebody else's text. */
static void fail(struct patch *p, const char *what)
{
    if (!p->problem)
        p->problem = bh_asprintf("line %zu of the patch %s", p->line, what);
}

static bool is_wanted(const struct patch *p, const char *path)
{
    for (size_t i = 0; i < p->v->n_paths; i++) {
        if (bh_glob_match(p->v->paths[i], path))
            return true;
    }
    return p->v->n_paths == 0;
}

static bool goes_to_git(const char *path)
{
    return bh_starts_with(path, ".git/") || bh_streq(path, ".git") || strstr(path, "/.git/") ||
           bh_ends_with(path, "/.git");
}

/* What stands behind "--- ", "+++ " and such; `strip`: with git's a/ or b/ before it. */
static void add_file(struct patch *p, const char *text, bool strip)
{
    BH_CLEANUP_FREE char *path = bh_strndup(text, strcspn(text, "\t"));
    char *name = path;
    if (bh_streq(name, "/dev/null"))
        return;
    if (*name == '"') {
        fail(p, "names a file in quotes");
        return;
    }
    if (strip && (bh_starts_with(name, "a/") || bh_starts_with(name, "b/")))
        name += 2;
    if (!bh_path_is_clean(name))
        fail(p, "names a path that is not clean and relative");
    else if (goes_to_git(name))
        fail(p, "names a file of git's own");
    else if (!is_wanted(p, name))
        fail(p, "names a file that 'paths' does not allow");
    else if (bh_map_put(p->files, name, p))
        p->n_files++;
}

static bool read_count(const char **at, int64_t *ret)
{
    *ret = 1;
    *at += strspn(*at, "0123456789");
    if (**at != ',')
        return true;
    const char *digits = *at + 1;
    size_t n = strspn(digits, "0123456789");
    BH_CLEANUP_FREE char *number = bh_strndup(digits, n);
    *at = digits + n;
    return n > 0 && bh_parse_int(number, ret) == 0;
}

/* @@ -1,3 +1,4 @@ */
static void begin_hunk(struct patch *p, const char *line)
{
    const char *at = line + strlen("@@ -");
    if (!p->in_file)
        fail(p, "begins a hunk of no file");
    else if (!read_count(&at, &p->left_old) || !bh_starts_with(at, " +"))
        fail(p, "is no head of a hunk");
    else if (at += 2, !read_count(&at, &p->left_new) || !bh_starts_with(at, " @@"))
        fail(p, "is no head of a hunk");
    p->hunks++;
}

static void read_hunk_line(struct patch *p, const char *line)
{
    switch (*line) {
    case ' ':
    case '\0': /* of an editor that cut the space off */
        p->left_old--;
        p->left_new--;
        break;
    case '-':
        p->left_old--;
        break;
    case '+':
        p->left_new--;
        break;
    case '\\':
        break;
    default:
        fail(p, "is none of a hunk");
    }
    if (p->left_old < 0 || p->left_new < 0)
        fail(p, "is one more than its hunk has");
}

static void read_mode(struct patch *p, const char *mode)
{
    if (!bh_streq(mode, "100644") && !bh_streq(mode, "100755"))
        fail(p, "makes something else than a plain file");
}

static void read_header(struct patch *p, const char *line)
{
    static const char *const modes[] = {"new file mode ", "old mode ", "new mode ", "deleted file mode "};
    static const char *const moves[] = {"rename from ", "rename to ", "copy from ", "copy to "};
    if (bh_starts_with(line, "@@ -")) {
        begin_hunk(p, line);
        return;
    }
    if (bh_starts_with(line, "--- ") || bh_starts_with(line, "+++ ")) {
        p->in_file = true;
        add_file(p, line + 4, true);
        return;
    }
    if (bh_starts_with(line, "GIT binary patch") || bh_starts_with(line, "Binary files "))
        fail(p, "has a binary part");
    for (size_t i = 0; i < BH_ARRAY_LEN(modes); i++) {
        if (bh_starts_with(line, modes[i]))
            read_mode(p, line + strlen(modes[i]));
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(moves); i++) {
        if (bh_starts_with(line, moves[i]))
            add_file(p, line + strlen(moves[i]), false);
    }
    if (bh_starts_with(line, "diff --git ")) /* an empty file has no other line with its name */
        p->in_file = false;
}

/* "diff --git a/x b/x" names its files once more, and where there is no hunk only here. Both halves are alike but for
 * renames, whose lines name them alone. */
static void read_git_line(struct patch *p, const char *line)
{
    static const char lead[] = "diff --git ";
    if (!bh_starts_with(line, lead))
        return;
    const char *names = line + strlen(lead);
    size_t half = strlen(names) / 2;
    if (strlen(names) < 5 || names[half] != ' ')
        return;
    BH_CLEANUP_FREE char *first = bh_strndup(names, half);
    if (bh_starts_with(first, "a/") && bh_starts_with(names + half + 1, "b/") && bh_streq(first + 2, names + half + 3))
        add_file(p, first, true);
}

static void read_line(struct patch *p, const char *line)
{
    p->line++;
    if (p->left_old > 0 || p->left_new > 0 || (*line == '\\' && p->in_file)) {
        read_hunk_line(p, line);
        return;
    }
    read_header(p, line);
    read_git_line(p, line);
}

char *bh_validate_patch(const struct bh_lease_validate *v, const char *text, size_t len)
{
    BH_CLEANUP_MAP struct bh_map *files = bh_map_new(NULL);
    struct patch p = {.v = v, .files = files};
    for (size_t at = 0; at < len && !p.problem;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;
        BH_CLEANUP_FREE char *line = bh_strndup(text + at, n > 0 && text[at + n - 1] == '\r' ? n - 1 : n);
        read_line(&p, line);
        at += n + 1;
    }
    if (!p.problem && (p.left_old > 0 || p.left_new > 0))
        p.problem = bh_strdup("the patch ends inside of a hunk");
    if (!p.problem && p.n_files == 0)
        p.problem = bh_strdup("the patch changes no file");
    if (!p.problem && v->max_files >= 0 && p.n_files > v->max_files)
        p.problem =
            bh_asprintf("the patch changes %lld files, more than %lld", (long long)p.n_files, (long long)v->max_files);
    return p.problem;
}
