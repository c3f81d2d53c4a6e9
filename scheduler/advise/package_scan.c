/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the walk; one descriptor per level, names only, no symlink ever followed. */
#include "scheduler/advise/package_scan.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/val.h"

enum { PACKAGE_JSON_MAX = 1 << 20, VERSION_MAX = 64 };

struct walk {
    struct bh_packages *out;
    size_t entries;
};

typedef void walk_fn(struct walk *w, int dirfd, const char *place, const char *name, size_t depth);

static void each_entry(struct walk *w, int above, const char *name, const char *place, size_t depth, walk_fn *fn)
{
    DIR *dir = bh_dir_stream(openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!dir)
        return;
    for (const struct dirent *e; w->entries < BH_PACKAGES_MAX_ENTRIES && (e = readdir(dir));) {
        if (bh_streq(e->d_name, ".") || bh_streq(e->d_name, ".."))
            continue;
        w->entries++;
        fn(w, dirfd(dir), place, e->d_name, depth);
    }
    (void)closedir(dir);
}

static bool is_version(const char *s)
{
    return isdigit((unsigned char)*s) && strlen(s) <= VERSION_MAX &&
           s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-_!")] == '\0';
}

static void add(struct walk *w, const char *kind, const char *place, const char *name, const char *version)
{
    *BH_PUSH(w->out->items, w->out->len, w->out->cap) =
        (struct bh_package){kind, bh_strdup(place), bh_strdup(name), bh_strdup(version)};
}

static bool is_whiteout(int dirfd, const char *name)
{
    struct stat st;
    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0);
}

/* --- npm --- */

static char *version_of_npm(int dirfd, const char *name)
{
    BH_CLEANUP_FREE char *path = bh_path_join(name, "package.json");
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_VAL struct bh_val *v = NULL;
    struct stat st;
    int fd = bh_open_beneath(dirfd, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0);
    bool good = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                bh_read_all(fd, PACKAGE_JSON_MAX, &text, NULL) == 0 &&
                bh_json_parse(text.data, text.len, &v, NULL) == 0;
    bh_close(fd);
    const char *version = good ? bh_val_str_of(v, "version") : NULL;
    return version && is_version(version) ? bh_strdup(version) : NULL;
}

static void npm_package(struct walk *w, int dirfd, const char *place, const char *name, const char *full_name)
{
    BH_CLEANUP_FREE char *version = version_of_npm(dirfd, name);
    if (version || is_whiteout(dirfd, name))
        add(w, "npm", place, full_name, version);
}

/* `place` is "PLACE\n@scope" here: both are needed, and the walk carries one text. */
static void in_scope(struct walk *w, int dirfd, const char *place, const char *name, size_t depth)
{
    (void)depth;
    const char *scope = strchr(place, '\n') + 1;
    BH_CLEANUP_FREE char *full_name = bh_asprintf("%s/%s", scope, name);
    BH_CLEANUP_FREE char *where = bh_strndup(place, (size_t)(scope - 1 - place));
    npm_package(w, dirfd, where, name, full_name);
}

static void in_node_modules(struct walk *w, int dirfd, const char *place, const char *name, size_t depth)
{
    if (name[0] == '@') {
        BH_CLEANUP_FREE char *scope = bh_asprintf("%s\n%s", place, name);
        each_entry(w, dirfd, name, scope, depth, in_scope);
    } else if (name[0] != '.') {
        npm_package(w, dirfd, place, name, name);
    }
}

/* --- Python --- */

static void normalise(char *name)
{
    for (; *name; name++)
        *name = *name == '_' || *name == '.' ? '-' : (char)tolower((unsigned char)*name);
}

/* An upgrade leaves a whiteout of the old one beside the new one: only what is there counts. */
static void in_site_packages(struct walk *w, int dirfd, const char *place, const char *entry, size_t depth)
{
    (void)depth;
    const char *dash = strchr(entry, '-');
    if (!bh_ends_with(entry, ".dist-info") || !dash || is_whiteout(dirfd, entry))
        return;
    BH_CLEANUP_FREE char *name = bh_strndup(entry, (size_t)(dash - entry));
    BH_CLEANUP_FREE char *version = bh_strndup(dash + 1, strlen(dash + 1) - strlen(".dist-info"));
    normalise(name);
    if (is_version(version))
        add(w, "pip", place, name, version);
}

/* --- the tree --- */

static void in_tree(struct walk *w, int dirfd, const char *place, const char *name, size_t depth)
{
    struct stat st;
    if (depth >= BH_PACKAGES_MAX_DEPTH || fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(st.st_mode))
        return;
    BH_CLEANUP_FREE char *below = bh_asprintf("%s/%s", place, name);
    walk_fn *fn = bh_streq(name, "node_modules")                                       ? in_node_modules
                  : bh_streq(name, "site-packages") || bh_streq(name, "dist-packages") ? in_site_packages
                                                                                       : in_tree;
    each_entry(w, dirfd, name, below, depth + 1, fn);
}

void bh_packages_scan(int dirfd, const char *dir, struct bh_packages *ret)
{
    static const char *const parts[][2] = {{"root", ""}, {"usr", "/usr"}, {"opt", "/opt"}};
    struct walk w = {.out = ret};
    int fd = bh_open_beneath(dirfd, dir, O_RDONLY | O_DIRECTORY, 0);
    for (size_t i = 0; fd >= 0 && i < BH_ARRAY_LEN(parts); i++)
        each_entry(&w, fd, parts[i][0], parts[i][1], 0, in_tree);
    bh_close(fd);
}

void bh_packages_fini(struct bh_packages *list)
{
    for (size_t i = 0; i < list->len; i++) {
        bh_free(list->items[i].place);
        bh_free(list->items[i].name);
        bh_free(list->items[i].version);
    }
    bh_free(list->items);
    *list = (struct bh_packages){0};
}
