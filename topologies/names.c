/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the grammar of artifact names and the table of who owns which. Looks at the text of names alone: no file, no
 * document. May be handed any bytes; must never take longer than the length of a name times the number of its segments,
 * which the limit on the length keeps small.
 */
#include "topologies/names.h"

#include <ctype.h>

#include "base/map.h"
#include "base/mem.h"

enum {
    MAX_SEGMENT = 128,
    MAX_NUMBER = 9,  /* digits */
    MAX_NAME = 1024, /* leaves room for /workspace/in/ below PATH_MAX */
};

static bool is_first(char c)
{
    return isascii(c) && (isalnum((unsigned char)c) || c == '_');
}

static bool is_later(char c)
{
    return is_first(c) || (c != '\0' && strchr(".+=-", c));
}

static bool is_star(char c)
{
    return c == '*' || c == '?';
}

/* NULL where the segment is good. */
static const char *segment_problem(const char *s, size_t len, bool stars)
{
    if (len == 0)
        return "has an empty segment";
    if (len == 1 && s[0] == '.')
        return "has '.' as a segment";
    if (len == 2 && s[0] == '.' && s[1] == '.')
        return "has '..' as a segment";
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '@')
            return "holds '@', which is kept for attempts and rounds";
        if (!is_later(s[i]) && !(stars && is_star(s[i])))
            return stars ? "holds a character other than letters, digits, . _ + = - * ?"
                         : "holds a character other than letters, digits, . _ + = -";
    }
    if (!is_first(s[0]) && !(stars && is_star(s[0])))
        return "has a segment that does not begin with a letter, a digit or '_'";
    if (len > MAX_SEGMENT)
        return "has a segment of more than 128 characters";
    return NULL;
}

static const char *problem(const char *name, bool stars)
{
    if (!name || *name == '\0')
        return "is empty";
    if (*name == '/')
        return "begins with '/'";
    size_t len = strlen(name);
    if (len > MAX_NAME)
        return "is longer than 1024 characters";
    if (name[len - 1] == '/')
        return "ends with '/'";
    for (const char *s = name;;) {
        size_t n = strcspn(s, "/");
        const char *why = segment_problem(s, n, stars);
        if (why || s[n] == '\0')
            return why;
        s += n + 1;
    }
}

const char *bh_artifact_name_problem(const char *name)
{
    return problem(name, false);
}

const char *bh_published_name_problem(const char *name)
{
    const char *at = strrchr(name, '@');
    if (!at)
        return problem(name, false);
    const char *number = at + 1 + (at[1] == 'r');
    size_t digits = strspn(number, "0123456789");
    if (digits == 0 || digits > MAX_NUMBER || *number == '0' || number[digits] != '\0')
        return "does not end in the number of an attempt or round";
    BH_CLEANUP_FREE char *plain = bh_strndup(name, (size_t)(at - name));
    return problem(plain, false);
}

const char *bh_artifact_glob_problem(const char *glob)
{
    return problem(glob, true);
}

struct claim {
    char *name, *owner;
};

/*
 * Both maps are keyed by folded text. `folders` holds, for every proper prefix of every name, the first claim below it:
 * so whether a name is a folder of another is one look, and whether another is a folder of it is one per segment.
 */
struct bh_name_table {
    struct bh_map *names;   /* of struct claim, owned */
    struct bh_map *folders; /* of struct claim, borrowed */
};

static void free_claim(void *p)
{
    struct claim *c = p;
    bh_free(c->name);
    bh_free(c->owner);
    bh_free(c);
}

struct bh_name_table *bh_name_table_new(void)
{
    struct bh_name_table *t = bh_alloc(sizeof(*t));
    t->names = bh_map_new(free_claim);
    t->folders = bh_map_new(NULL);
    return t;
}

void bh_name_table_free(struct bh_name_table *t)
{
    if (!t)
        return;
    bh_map_free(t->folders);
    bh_map_free(t->names);
    bh_free(t);
}

static char *fold(const char *name)
{
    char *folded = bh_strdup(name);
    for (char *p = folded; *p; p++)
        *p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
    return folded;
}

/* Cuts `folded` at each '/' in turn and looks whether what stands before it is a name. */
static const struct claim *find_folder_of(const struct bh_name_table *t, char *folded)
{
    for (char *slash = strchr(folded, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const struct claim *c = bh_map_get(t->names, folded);
        *slash = '/';
        if (c)
            return c;
    }
    return NULL;
}

static enum bh_name_clash look_up(const struct bh_name_table *t, const char *name, const char *owner,
                                  const struct claim **ret)
{
    BH_CLEANUP_FREE char *folded = fold(name);
    const struct claim *c = bh_map_get(t->names, folded);
    *ret = c;
    if (c && strcmp(c->name, name) != 0)
        return BH_CLASH_CASE;
    if (c)
        return strcmp(c->owner, owner) == 0 ? BH_CLASH_NONE : BH_CLASH_EQUAL;
    c = find_folder_of(t, folded);
    if (!c)
        c = bh_map_get(t->folders, folded);
    *ret = c;
    return c ? BH_CLASH_PREFIX : BH_CLASH_NONE;
}

enum bh_name_clash bh_name_table_check(const struct bh_name_table *t, const char *name, const char *owner,
                                       const char **ret_name, const char **ret_owner)
{
    const struct claim *other;
    enum bh_name_clash clash = look_up(t, name, owner, &other);
    if (clash != BH_CLASH_NONE) {
        *ret_name = other->name;
        *ret_owner = other->owner;
    }
    return clash;
}

void bh_name_table_add(struct bh_name_table *t, const char *name, const char *owner)
{
    BH_CLEANUP_FREE char *folded = fold(name);
    if (bh_map_has(t->names, folded))
        return; /* a later try of the same owner */
    struct claim *c = bh_alloc(sizeof(*c));
    c->name = bh_strdup(name);
    c->owner = bh_strdup(owner);
    (void)bh_map_put(t->names, folded, c);
    for (char *slash = strchr(folded, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (!bh_map_has(t->folders, folded))
            (void)bh_map_put(t->folders, folded, c);
        *slash = '/';
    }
}

const char *bh_name_clash_text(enum bh_name_clash clash)
{
    switch (clash) {
    case BH_CLASH_EQUAL:
        return "is the same name";
    case BH_CLASH_CASE:
        return "differs only by case";
    case BH_CLASH_PREFIX:
        return "is a folder of";
    case BH_CLASH_NONE:
        break;
    }
    return "does not clash with";
}
