/* SPDX-License-Identifier: Apache-2.0 */
/* A small JSON object. Its names become paths, so they are checked as if somebody else had written them. */
#include "workers/box/stand.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/val.h"

#define STAND_MAX (1 << 20)
#define TEMPORARY BH_TEMPORARY_PREFIX BH_BOX_STAND

static void free_list(char **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bh_free(list[i]);
    bh_free(list);
}

void bh_box_stand_fini(struct bh_box_stand *stand)
{
    bh_free(stand->base);
    bh_free(stand->usr_dirs);
    free_list(stand->base_layers, stand->n_base_layers);
    free_list(stand->layers, stand->n_layers);
    free_list(stand->snapshots, stand->n_snapshots);
    *stand = (struct bh_box_stand){0};
}

/* --- writing --- */

static void set_list(struct bh_val *v, const char *key, char *const *list, size_t n)
{
    struct bh_val *to = bh_val_set(v, key, bh_val_list());
    for (size_t i = 0; i < n; i++)
        bh_val_add(to, bh_val_str(list[i]));
}

static struct bh_val *to_val(const struct bh_box_stand *s)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_int(v, "version", 1);
    bh_val_set_str(v, "base", s->base);
    set_list(v, "base_layers", s->base_layers, s->n_base_layers);
    bh_val_set_str(v, "usr_dirs", s->usr_dirs);
    set_list(v, "layers", s->layers, s->n_layers);
    set_list(v, "snapshots", s->snapshots, s->n_snapshots);
    bh_val_set_bool(v, "writable_usr", s->writable_usr);
    bh_val_set_bool(v, "shared", s->shared);
    bh_val_set_int(v, "agent_uid", s->agent_uid);
    bh_val_set_int(v, "agent_gid", s->agent_gid);
    bh_val_set_bool(v, "range", s->owner.mode == BH_IDS_RANGE);
    bh_val_set_int(v, "first_id", s->owner.first_id);
    return v;
}

int bh_box_stand_write(int dirfd, const struct bh_box_stand *stand)
{
    BH_CLEANUP_VAL struct bh_val *v = to_val(stand);
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_json_format(v, &text);
    bh_buf_addc(&text, '\n');
    (void)unlinkat(dirfd, TEMPORARY, 0);
    BH_CLEANUP_FD int fd = openat(dirfd, TEMPORARY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || bh_write_all(fd, text.data, text.len) < 0)
        return -1;
    return renameat(dirfd, TEMPORARY, dirfd, BH_BOX_STAND);
}

/* --- reading --- */

static bool name_valid(const char *name)
{
    return name && name[0] && name[0] != '.' && strlen(name) <= 200 && !strpbrk(name, "/:,\\");
}

static int get_list(const struct bh_val *v, const char *key, char ***ret, size_t *ret_n)
{
    const struct bh_val *list = bh_val_get(v, key);
    size_t n = bh_val_len(list);
    char **names = bh_calloc(n + 1, sizeof(*names));
    for (size_t i = 0; i < n; i++) {
        const char *name = bh_val_get_str(bh_val_at(list, i));
        if (!name_valid(name)) {
            free_list(names, i);
            return -1;
        }
        names[i] = bh_strdup(name);
    }
    *ret = names;
    *ret_n = n;
    return 0;
}

static int get_name(const struct bh_val *v, const char *key, char **ret)
{
    const char *name = bh_val_str_of(v, key);
    if (name && !name_valid(name))
        return -1;
    *ret = bh_strdup(name);
    return 0;
}

static int from_val(const struct bh_val *v, struct bh_box_stand *s)
{
    if (bh_val_type(v) != BH_VAL_MAP || bh_val_int_of(v, "version") != 1)
        return -1;
    if (get_name(v, "base", &s->base) < 0 || get_name(v, "usr_dirs", &s->usr_dirs) < 0 ||
        get_list(v, "base_layers", &s->base_layers, &s->n_base_layers) < 0 ||
        get_list(v, "layers", &s->layers, &s->n_layers) < 0 ||
        get_list(v, "snapshots", &s->snapshots, &s->n_snapshots) < 0)
        return -1;
    s->writable_usr = bh_val_bool_of(v, "writable_usr");
    s->shared = bh_val_bool_of(v, "shared");
    s->agent_uid = bh_val_int_of(v, "agent_uid");
    s->agent_gid = bh_val_int_of(v, "agent_gid");
    s->owner.mode = bh_val_bool_of(v, "range") ? BH_IDS_RANGE : BH_IDS_SINGLE;
    s->owner.first_id = (uint32_t)bh_val_int_of(v, "first_id");
    return s->base || s->n_base_layers > 0 ? 0 : -1;
}

int bh_box_stand_read(int dirfd, struct bh_box_stand *ret, struct bh_err **err)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_VAL struct bh_val *v = NULL;
    struct bh_box_stand stand = {0};
    struct stat st;
    BH_CLEANUP_FD int fd = openat(dirfd, BH_BOX_STAND, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return bh_err_set(err, errno == ENOENT ? BH_E_NOT_FOUND : BH_E_IO, errno, "cannot open '%s'", BH_BOX_STAND);
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && bh_read_all(fd, STAND_MAX, &text, NULL) == 0 &&
        bh_json_parse(text.data, text.len, &v, NULL) == 0 && from_val(v, &stand) == 0) {
        *ret = stand;
        return 0;
    }
    bh_box_stand_fini(&stand);
    return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "'%s' does not say what the box stands on", BH_BOX_STAND);
}
