/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Provenance records: what is said about an artifact, made from the lease (what was asked), the result (what came of
 * it) and the label. Pure; the same execution always gives the same record.
 */
#include "artifact-bus/provenance.h"

#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/val.h"

static void set_digest(struct bh_val *map, const char *key, const struct bh_digest *d)
{
    char text[BH_DIGEST_TEXT];
    bh_val_set_str(map, key, bh_digest_format(d, text));
}

static void set_wall(struct bh_val *map, const char *key, struct bh_wall t)
{
    char text[BH_WALL_TEXT];
    bh_val_set_str(map, key, bh_wall_format(t, text));
}

static void set_object(struct bh_val *map, const char *name, const struct bh_object *object)
{
    bh_val_set_str(map, "name", name);
    set_digest(map, "digest", &object->digest);
    bh_val_set_int(map, "size", object->size);
}

static void set_label(struct bh_val *map, bool tainted, const char *why)
{
    bh_val_set_str(map, "label", tainted ? "tainted" : "trusted");
    bh_val_set_str(map, "why", why);
}

/* Of the canonical JSON of argv, so that argument boundaries count; null where there is no command. */
static void set_command(struct bh_val *map, const char *key, char **argv, size_t n)
{
    if (n == 0) {
        bh_val_set(map, key, bh_val_null());
        return;
    }
    BH_CLEANUP_VAL struct bh_val *list = bh_val_list();
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    for (size_t i = 0; i < n; i++)
        bh_val_add(list, bh_val_str(argv[i]));
    bh_json_format_canonical(list, &text);
    struct bh_digest d = bh_digest_of(text.data, text.len);
    set_digest(map, key, &d);
}

/* The command itself, for people; a list that would be long is left to its digest. */
static void set_argv(struct bh_val *map, char **argv, size_t n)
{
    enum { LONGEST = 4096 };
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        len += strlen(argv[i]) + 1;
    struct bh_val *list = bh_val_set(map, "argv", len > LONGEST ? bh_val_null() : bh_val_list());
    for (size_t i = 0; i < n && len <= LONGEST; i++)
        bh_val_add(list, bh_val_str(argv[i]));
}

static void set_text_digest(struct bh_val *map, const char *key, const char *text)
{
    if (!text) {
        bh_val_set(map, key, bh_val_null());
        return;
    }
    struct bh_digest d = bh_digest_of(text, strlen(text));
    set_digest(map, key, &d);
}

/* Of what is the same each time that the same thing is asked for: not the run, the instance, the attempt, the try. */
static void set_env(struct bh_val *map, const struct bh_lease *lease)
{
    static const char *const varying[] = {"BULKHEAD_RUN", "BULKHEAD_INSTANCE", "BULKHEAD_ATTEMPT", "BULKHEAD_TRY"};
    BH_CLEANUP_VAL struct bh_val *env = bh_val_map();
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    for (size_t i = 0; i < lease->n_env; i++) {
        bool varies = false;
        for (size_t k = 0; k < BH_ARRAY_LEN(varying); k++)
            varies = varies || strcmp(varying[k], lease->env[i].name) == 0;
        if (!varies)
            bh_val_set_str(env, lease->env[i].name, lease->env[i].value);
    }
    bh_json_format_canonical(env, &text);
    set_text_digest(map, "env", text.data);
}

static void set_layers(struct bh_val *map, const struct bh_lease_box *box)
{
    struct bh_val *list = bh_val_set(map, "layers", bh_val_list());
    for (size_t i = 0; i < box->n_layers; i++)
        bh_val_add(list, bh_val_str(box->layers[i]));
}

static void set_files(struct bh_val *map, const struct bh_lease *lease)
{
    struct bh_val *list = bh_val_set(map, "files", bh_val_list());
    for (size_t i = 0; i < lease->n_files; i++) {
        struct bh_val *file = bh_val_add(list, bh_val_map());
        bh_val_set_str(file, "path", lease->files[i].path);
        set_digest(file, "digest", &lease->files[i].object.digest);
    }
}

/*
 * The producer of an input, and the gates that it has passed, stand in the input's own record; a source has no
 * producer, and text that is no record has neither.
 */
static void set_origin(struct bh_val *map, const struct bh_lease_file *input)
{
    BH_CLEANUP_VAL struct bh_val *record = NULL;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    bool good = input->provenance && bh_json_parse(input->provenance, strlen(input->provenance), &record, &err) == 0;
    bh_val_set_str(map, "agent", good ? bh_val_str_of(record, "agent") : NULL);
    const struct bh_val *passed = good ? bh_val_get(record, "passed") : NULL;
    if (passed)
        bh_val_set(map, "passed", bh_val_copy(passed));
}

static void set_inputs(struct bh_val *map, const struct bh_lease *lease)
{
    struct bh_val *list = bh_val_set(map, "inputs", bh_val_list());
    for (size_t i = 0; i < lease->n_inputs; i++) {
        struct bh_val *input = bh_val_add(list, bh_val_map());
        bh_val_set_str(input, "name", lease->inputs[i].name);
        set_digest(input, "digest", &lease->inputs[i].object.digest);
        set_origin(input, &lease->inputs[i]);
    }
}

struct bh_val *bh_provenance_of_output(const struct bh_lease *lease, const struct bh_result *result,
                                       const struct bh_result_output *output, bool tainted, const char *why)
{
    struct bh_val *map = bh_val_map();
    set_object(map, output->name, &output->object);
    bh_val_set_str(map, "run", lease->run.s);
    bh_val_set_str(map, "agent", lease->agent);
    bh_val_set_str(map, "stage", lease->stage && *lease->stage ? lease->stage : NULL);
    bh_val_set_int(map, "attempt", lease->attempt);
    bh_val_set_int(map, "try", lease->try_);
    bh_val_set_str(map, "instance", lease->instance.s);
    bh_val_set_str(map, "box", lease->box.id);
    bh_val_set_str(map, "base", lease->box.base);
    bh_val_set_str(map, "base_digest", lease->box.base_digest);
    set_layers(map, &lease->box);
    set_command(map, "command", lease->run_argv, lease->n_run);
    set_argv(map, lease->run_argv, lease->n_run);
    set_command(map, "setup", lease->setup, lease->n_setup);
    set_command(map, "box_setup", lease->box.setup, lease->box.n_setup);
    set_command(map, "prepare", lease->prepare, lease->n_prepare);
    set_command(map, "check", lease->check.argv, lease->check.n_argv);
    bh_val_set_str(map, "snapshot", result->snapshot);
    bh_val_set_str(map, "snapshot_key", lease->snapshot_key);
    set_text_digest(map, "prompt", lease->prompt);
    set_text_digest(map, "params", lease->params_json);
    set_env(map, lease);
    bh_val_set_str(map, "user", lease->user);
    set_files(map, lease);
    set_inputs(map, lease);
    set_label(map, tainted, why);
    set_wall(map, "started", result->started);
    set_wall(map, "ended", result->ended);
    bh_val_set_int(map, "exit_code", result->exit_code);
    return map;
}

struct bh_val *bh_provenance_of_state(const struct bh_lease *lease)
{
    bool setup = lease->kind == BH_LEASE_SETUP;
    struct bh_val *map = bh_val_map();
    set_command(map, "command", setup ? lease->setup : lease->prepare, setup ? lease->n_setup : lease->n_prepare);
    set_files(map, lease);
    return map;
}

/* Files arrive with whatever comes first. */
void bh_provenance_add_state(struct bh_val *record, const struct bh_val *setup, const struct bh_val *prepare)
{
    const struct bh_val *first = setup ? setup : prepare;
    if (setup)
        bh_val_set(record, "setup", bh_val_copy(bh_val_get(setup, "command")));
    if (first)
        bh_val_set(record, "files", bh_val_copy(bh_val_get(first, "files")));
}

struct bh_val *bh_provenance_of_source(const char *name, const struct bh_object *object, const char *path, bool tainted)
{
    struct bh_val *map = bh_val_map();
    set_object(map, name, object);
    bh_val_set_str(map, "source", path);
    set_label(map, tainted, tainted ? "untrusted: true" : NULL);
    return map;
}
