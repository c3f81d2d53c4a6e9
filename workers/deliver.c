/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays out what a box is given (deliver.h). Modes are set by hand, because the box may look at these folders with
 * another id than the one that made them and the caller's umask may be anything.
 */
#include "workers/deliver.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "base/val.h"

#define PROVENANCE ".provenance.json"

/* A folder and its missing parents beneath dirfd, every one 0755. */
static int make_folder(int dirfd, const char *name)
{
    for (const char *at = strchr(name, '/');; at = strchr(at + 1, '/')) {
        BH_CLEANUP_FREE char *part = at ? bh_strndup(name, (size_t)(at - name)) : bh_strdup(name);
        if (mkdirat(dirfd, part, 0755) == 0) {
            if (fchmodat(dirfd, part, 0755, 0) < 0)
                return -1;
        } else if (errno != EEXIST) {
            return -1;
        }
        if (!at)
            return 0;
    }
}

/* Opens boxes/KEY/deliver, or SUB in it, which must be new (NULL: deliver itself), for what is to be laid into it. */
static int open_place(const struct bh_run_files *run, const char *key, const char *sub, int *ret_fd,
                      struct bh_err **err)
{
    BH_CLEANUP_FREE char *deliver = bh_asprintf("boxes/%s/deliver", key);
    BH_CLEANUP_FREE char *place = sub ? bh_asprintf("%s/%s", deliver, sub) : bh_strdup(deliver);
    if (make_folder(run->dirfd, deliver) < 0 ||
        (sub && (mkdirat(run->dirfd, place, 0755) < 0 || fchmodat(run->dirfd, place, 0755, 0) < 0)))
        return bh_err_set(err, BH_E_IO, errno, "cannot make '%s'", place);
    *ret_fd = bh_open_beneath(run->dirfd, place, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (*ret_fd < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot open '%s'", place);
    return 0;
}

static int link_object(struct bh_cas *cas, const struct bh_lease_file *file, int dirfd, const char *name,
                       struct bh_err **err)
{
    const char *slash = strrchr(name, '/');
    if (slash) {
        BH_CLEANUP_FREE char *folder = bh_strndup(name, (size_t)(slash - name));
        if (make_folder(dirfd, folder) < 0)
            return bh_err_set(err, BH_E_IO, errno, "cannot make '%s'", folder);
    }
    return bh_cas_link(cas, &file->object.digest, file->object.executable, dirfd, name, err);
}

static int add_provenance(struct bh_val *map, const struct bh_lease_file *input, struct bh_err **err)
{
    struct bh_val *record = NULL;
    if (!input->provenance) {
        bh_val_set(map, input->name, bh_val_null());
        return 0;
    }
    int rc = bh_json_parse(input->provenance, strlen(input->provenance), &record, err);
    if (rc != 0)
        return bh_err_wrap(err, rc, "reading the provenance of '%s'", input->name);
    bh_val_set(map, input->name, record);
    return 0;
}

static int lay_inputs(struct bh_run_files *run, const struct bh_lease *lease, int dirfd, struct bh_err **err)
{
    BH_CLEANUP_VAL struct bh_val *provenance = bh_val_map();
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    if (make_folder(dirfd, "in") < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot make 'in'");
    for (size_t i = 0; i < lease->n_inputs; i++) {
        const struct bh_lease_file *input = &lease->inputs[i];
        BH_CLEANUP_FREE char *name = bh_asprintf("in/%s", input->path);
        int rc = bh_path_is_clean(input->path)
                     ? link_object(run->links, input, dirfd, name, err)
                     : bh_err_set(err, BH_E_PROTOCOL, 0, "the path '%s' is not a clean relative one", input->path);
        if (rc == 0)
            rc = add_provenance(provenance, input, err);
        if (rc != 0)
            return bh_err_wrap(err, rc, "delivering '%s'", input->name);
    }
    bh_json_format(provenance, &text);
    if (lease->n_inputs > 0)
        return bh_run_files_write(text.data, dirfd, "in/" PROVENANCE, err);
    return bh_run_files_common(run, &run->no_inputs, text.data, dirfd, "in/" PROVENANCE, err);
}

/* Numbered, since paths of files may be anything and one may not stand in another's way here. */
static int lay_files(struct bh_cas *cas, const struct bh_lease_file *files, size_t n, int dirfd, const char *place,
                     struct bh_arena *arena, struct bh_delivery *ret, struct bh_err **err)
{
    ret->copies = bh_arena_alloc(arena, n * sizeof(*ret->copies));
    for (size_t i = 0; i < n; i++) {
        BH_CLEANUP_FREE char *name = bh_asprintf("files/%zu", i);
        int rc = link_object(cas, &files[i], dirfd, name, err);
        if (rc != 0)
            return bh_err_wrap(err, rc, "delivering file '%s'", files[i].path);
        ret->copies[i] = (struct bh_box_copy){
            .from = bh_arena_printf(arena, "%s%s", place, name),
            .to = bh_arena_strdup(arena, files[i].path),
            .mode = files[i].object.executable ? 0755 : 0644,
        };
    }
    ret->n_copies = n;
    return 0;
}

struct own_file {
    const char *name, *text;
    const char **ret;
};

static int lay_own_files(struct bh_run_files *run, const struct bh_lease *lease, int dirfd, const char *place,
                         struct bh_arena *arena, struct bh_delivery *ret, struct bh_err **err)
{
    const struct own_file own[] = {
        {"prompt.md", lease->prompt, &ret->prompt},
        {"needs.json", lease->needs_json, &ret->needs},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(own); i++) {
        if (!own[i].text)
            continue;
        int rc = bh_run_files_write(own[i].text, dirfd, own[i].name, err);
        if (rc != 0)
            return rc;
        *own[i].ret = bh_arena_printf(arena, "%s%s", place, own[i].name);
    }
    if (!lease->params_json)
        return 0;
    ret->params = bh_arena_printf(arena, "%sparams.json", place);
    return bh_run_files_common(run, &run->params, lease->params_json, dirfd, "params.json", err);
}

int bh_deliver_lease(struct bh_run_files *run, const struct bh_lease *lease, struct bh_arena *arena,
                     struct bh_delivery *ret, struct bh_err **err)
{
    BH_CLEANUP_FD int dirfd = -1;
    struct bh_delivery delivery = {0};
    const char *sub = lease->box.shared ? lease->instance.s : NULL;
    BH_CLEANUP_FREE char *place = sub ? bh_asprintf("%s/", sub) : bh_strdup("");
    int rc = open_place(run, lease->box.key, sub, &dirfd, err);
    if (rc == 0)
        rc = lay_inputs(run, lease, dirfd, err);
    if (rc == 0)
        rc = lay_files(run->links, lease->files, lease->n_files, dirfd, place, arena, &delivery, err);
    if (rc == 0)
        rc = lay_own_files(run, lease, dirfd, place, arena, &delivery, err);
    if (rc != 0)
        return rc;
    delivery.inputs = bh_arena_printf(arena, "%sin", place);
    *ret = delivery;
    return 0;
}

int bh_deliver_box(const struct bh_run_files *run, const struct bh_lease_box *box, struct bh_arena *arena,
                   struct bh_delivery *ret, struct bh_err **err)
{
    BH_CLEANUP_FD int dirfd = -1;
    struct bh_delivery delivery = {0};
    int rc = open_place(run, box->key, "box", &dirfd, err);
    if (rc == 0)
        rc = lay_files(run->links, box->files, box->n_files, dirfd, "box/", arena, &delivery, err);
    if (rc != 0)
        return rc;
    *ret = delivery;
    return 0;
}

void bh_deliver_remove(const struct bh_run_files *run, const struct bh_lease *lease)
{
    BH_CLEANUP_FREE char *place = bh_asprintf("boxes/%s/deliver/%s", lease->box.key, lease->instance.s);
    (void)bh_rmtree_at(run->dirfd, place);
}

int bh_prompt_fd(const char *prompt, int *ret_fd, struct bh_err **err)
{
    BH_CLEANUP_FD int fd = memfd_create("prompt", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || bh_write_all(fd, prompt, strlen(prompt)) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot make the prompt's standard input");
    *ret_fd = BH_TAKE_FD(fd);
    return 0;
}
