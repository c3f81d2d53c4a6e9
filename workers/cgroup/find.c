/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where control groups are mounted and which is our own, from what /proc says. Looks at nothing but those two texts,
 * and believes neither: whether a place is of use is found out by using it (begin.c).
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "workers/cgroup/priv.h"

const char *bh_cgroup_part_name(enum bh_cgroup_part part)
{
    static const char *const names[BH_CGROUP_PARTS] = {"memory", "cpu", "pids", "freezer"};
    return names[part];
}

static bool in_list(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list; at && *at; at = strchr(at, ','), at = at ? at + 1 : NULL) {
        if (strncmp(at, word, len) == 0 && (at[len] == ',' || at[len] == '\0'))
            return true;
    }
    return false;
}

/* "\040" and the like, in place. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        if (at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' && at[2] <= '7' && at[3] >= '0' &&
            at[3] <= '7') {
            *to++ = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
            at += 3;
        } else {
            *to++ = *at;
        }
    }
    *to = '\0';
}

/* --- our own group, by the text of /proc/self/cgroup --- */

/* "4:memory:/a/b"; v2 (controllers ""): "0::/a/b". The caller owns it; NULL: none. */
static char *own_group(const char *self, const char *controller)
{
    BH_CLEANUP_FREE char *text = bh_strdup(self);
    char *next = NULL;
    for (char *line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        list++;
        if (controller[0] ? in_list(list, controller) : list[0] == '\0')
            return bh_strdup(path);
    }
    return NULL;
}

/*
 * A mount shows the hierarchy from `root` on (not "/" where only a part of it is mounted). NULL: our group is not below
 * that.
 */
static char *own_place(const char *point, const char *root, const char *group)
{
    size_t len = bh_streq(root, "/") ? 0 : strlen(root);
    if (!group || strncmp(group, root, len) != 0 || (group[len] != '/' && group[len] != '\0') || strstr(group, "/.."))
        return NULL;
    const char *rest = group + len;
    return bh_asprintf("%s%s", point, bh_streq(rest, "/") ? "" : rest);
}

/* --- mounts --- */

static void note(struct bh_cgroup_place *place, const char *point, const char *root, const char *self,
                 const char *controller)
{
    if (place->mount)
        return; /* the first of several of the same hierarchy */
    BH_CLEANUP_FREE char *group = own_group(self, controller);
    place->mount = bh_strdup(point);
    place->own = own_place(point, root, group);
}

/* "36 35 98:0 ROOT POINT options… - TYPE source SUPER-OPTIONS" */
static void note_mount(struct bh_cgroup_places *ret, char *line, const char *self)
{
    char *fields[5], *next = NULL, *tail = strstr(line, " - ");
    if (!tail)
        return;
    *tail = '\0';
    for (size_t i = 0; i < BH_ARRAY_LEN(fields); i++) {
        fields[i] = strtok_r(i == 0 ? line : NULL, " ", &next);
        if (!fields[i])
            return;
    }
    unescape(fields[3]);
    unescape(fields[4]);
    char *type = strtok_r(tail + 3, " ", &next), *source = strtok_r(NULL, " ", &next);
    char *options = source ? strtok_r(NULL, " ", &next) : NULL;
    if (type && bh_streq(type, "cgroup2"))
        note(&ret->v2, fields[4], fields[3], self, "");
    if (!options || !bh_streq(type, "cgroup"))
        return;
    for (size_t i = 0; i < BH_CGROUP_PARTS; i++) {
        const char *name = bh_cgroup_part_name((enum bh_cgroup_part)i);
        if (in_list(options, name))
            note(&ret->v1[i], fields[4], fields[3], self, name);
    }
}

void bh_cgroup_places_parse(struct bh_cgroup_places *ret, const char *mountinfo, const char *self)
{
    BH_CLEANUP_FREE char *text = bh_strdup(mountinfo);
    *ret = (struct bh_cgroup_places){0};
    for (char *line = text, *end; line && *line; line = end ? end + 1 : NULL) {
        end = strchr(line, '\n');
        if (end)
            *end = '\0';
        note_mount(ret, line, self);
    }
}

int bh_cgroup_places_read(struct bh_cgroup_places *ret)
{
    BH_CLEANUP_BUF struct bh_buf mounts = BH_BUF_INIT, self = BH_BUF_INIT;
    *ret = (struct bh_cgroup_places){0};
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    if (bh_read_file("/proc/self/mountinfo", 16 << 20, &mounts, &err) != 0 ||
        bh_read_file("/proc/self/cgroup", 1 << 20, &self, &err) != 0) {
        errno = bh_err_errno(err) ? bh_err_errno(err) : EIO;
        return -1;
    }
    bh_cgroup_places_parse(ret, mounts.data, self.data);
    return 0;
}

static void place_fini(struct bh_cgroup_place *p)
{
    bh_free(BH_TAKE(p->mount));
    bh_free(BH_TAKE(p->own));
}

void bh_cgroup_places_fini(struct bh_cgroup_places *p)
{
    place_fini(&p->v2);
    for (size_t i = 0; i < BH_CGROUP_PARTS; i++)
        place_fini(&p->v1[i]);
}
