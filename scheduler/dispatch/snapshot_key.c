/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address of a prepared state: one canonical JSON text of everything that went into it, and its digest. A field
 * that is forgotten here is a stale state that is taken for a fresh one; one too many is only a state made twice.
 * Limits are left out on purpose: what a command made within them it would have made within larger ones.
 */
#include "scheduler/dispatch/snapshot_key.h"

#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"

enum { KEY_VERSION = 1 };

static void set_texts(struct bh_val *map, const char *key, char **texts, size_t n)
{
    struct bh_val *list = bh_val_set(map, key, bh_val_list());
    for (size_t i = 0; i < n; i++)
        bh_val_add(list, bh_val_str(texts[i]));
}

static void set_files(struct bh_val *map, const char *key, const struct bh_lease_file *files, size_t n)
{
    struct bh_val *list = bh_val_set(map, key, bh_val_list());
    for (size_t i = 0; i < n; i++) {
        char digest[BH_DIGEST_TEXT];
        struct bh_val *entry = bh_val_add(list, bh_val_list());
        bh_val_add(entry, bh_val_str(files[i].path));
        bh_val_add(entry, bh_val_str(bh_digest_format(&files[i].object.digest, digest)));
        bh_val_add(entry, bh_val_bool(files[i].object.executable));
    }
}

static void set_env(struct bh_val *map, const struct bh_lease *lease)
{
    struct bh_val *env = bh_val_set(map, "env", bh_val_map());
    for (size_t i = 0; i < lease->n_env; i++)
        bh_val_set_str(env, lease->env[i].name, lease->env[i].value);
}

/* What may be called while it is made, and where: a prepared state may hold the answers. */
static void set_endpoints(struct bh_val *map, const struct bh_lease *lease)
{
    struct bh_val *all = bh_val_set(map, "endpoints", bh_val_list());
    for (size_t i = 0; i < lease->n_endpoints; i++) {
        const struct bh_lease_endpoint *e = &lease->endpoints[i];
        struct bh_val *entry = bh_val_add(all, bh_val_map());
        bh_val_set_str(entry, "upstream", e->upstream);
        set_texts(entry, "allow", e->allow, e->n_allow);
        struct bh_val *env = bh_val_set(entry, "env", bh_val_map());
        for (size_t k = 0; k < e->n_env; k++)
            bh_val_set_str(env, e->env[k].name, e->env[k].value);
    }
}

static void set_base(struct bh_val *map, const struct bh_lease_box *box, const struct bh_snapshot_world *world)
{
    struct utsname uts;
    bool host = bh_streq(box->base, "host");
    bh_val_set_str(map, "architecture", uname(&uts) == 0 ? uts.machine : NULL);
    bh_val_set_str(map, "base", host ? "host" : box->base_digest ? box->base_digest : box->base);
    bh_val_set_str(map, "host", host ? world->host : NULL);
    set_texts(map, "base_layers", box->base_layers, box->n_base_layers);
    bh_val_set_int(map, "uid", box->agent_uid);
    bh_val_set_int(map, "gid", box->agent_gid);
}

/* What a warm process has left is of no use without it, and must not change while it lives: nobody else finds it. */
static void set_owner(struct bh_val *map, const struct bh_lease *lease)
{
    bh_val_set_str(map, "run", lease->run.s);
    bh_val_set_str(map, "instance", lease->instance.s);
    bh_val_set_int(map, "epoch", lease->epoch);
    bh_val_set_int(map, "try", lease->try_);
}

char *bh_snapshot_key(const struct bh_lease *lease, const char *below, const struct bh_snapshot_world *world)
{
    bool setup = lease->kind == BH_LEASE_SETUP;
    BH_CLEANUP_VAL struct bh_val *map = bh_val_map();
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    char digest[BH_DIGEST_TEXT];
    bh_val_set_int(map, "version", KEY_VERSION);
    bh_val_set_str(map, "kind", setup ? "setup" : "prepare");
    bh_val_set_str(map, "below", below);
    set_base(map, &lease->box, world);
    set_texts(map, "command", setup ? lease->setup : lease->prepare, setup ? lease->n_setup : lease->n_prepare);
    bh_val_set_bool(map, "warm", lease->warm);
    if (lease->warm && lease->kind == BH_LEASE_PREPARE)
        set_owner(map, lease);
    set_files(map, "files", lease->files, lease->n_files);
    set_files(map, "inputs", lease->inputs, lease->n_inputs);
    set_env(map, lease);
    bh_val_set_str(map, "params", lease->params_json);
    bh_val_set_str(map, "needs", lease->needs_json);
    bh_val_set_str(map, "user", lease->user);
    bh_val_set_str(map, "workdir", lease->workdir);
    bh_val_set_str(map, "network", world->network);
    if (lease->n_endpoints > 0)
        set_endpoints(map, lease);
    bh_val_set_str(map, "label", world->tainted ? "tainted" : "trusted");
    bh_json_format_canonical(map, &text);
    struct bh_digest d = bh_digest_of(text.data, text.len);
    return bh_strdup(bh_digest_format(&d, digest) + strlen("sha256:"));
}

char *bh_host_stamp(void)
{
    static const char *const paths[] = {"/usr",
                                        "/usr/bin",
                                        "/usr/sbin",
                                        "/usr/lib",
                                        "/usr/lib64",
                                        "/usr/local/bin",
                                        "/usr/local/lib",
                                        "/usr/share",
                                        "/opt",
                                        "/usr/local",
                                        "/var/lib/dpkg/status",
                                        "/var/lib/rpm",
                                        "/usr/lib/python3"};
    struct bh_buf text = BH_BUF_INIT;
    for (size_t i = 0; i < BH_ARRAY_LEN(paths); i++) {
        struct stat st;
        if (stat(paths[i], &st) == 0)
            bh_buf_addf(&text, "%s:%llx:%llx:%lld.%ld:%lld;", paths[i], (unsigned long long)st.st_dev,
                        (unsigned long long)st.st_ino, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
                        S_ISREG(st.st_mode) ? (long long)st.st_size : -1LL);
    }
    return bh_buf_take(&text);
}
