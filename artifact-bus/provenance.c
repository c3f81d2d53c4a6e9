/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Provenance records: what is said about an artifact, made from the lease (what was asked), the result (what came of
 * it) and the label. Pure; the same execution always gives the same record.
 */
#include "artifact-bus/provenance.h"

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

/* The producer of an input stands in the input's own record; a source has none, and neither has text that is no record.
 */
static struct bh_val *agent_of_input(const struct bh_lease_file *input)
{
    BH_CLEANUP_VAL struct bh_val *record = NULL;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    if (!input->provenance || bh_json_parse(input->provenance, strlen(input->provenance), &record, &err) != 0)
        return bh_val_null();
    return bh_val_str(bh_val_str_of(record, "agent"));
}

static void set_inputs(struct bh_val *map, const struct bh_lease *lease)
{
    struct bh_val *list = bh_val_set(map, "inputs", bh_val_list());
    for (size_t i = 0; i < lease->n_inputs; i++) {
        struct bh_val *input = bh_val_add(list, bh_val_map());
        bh_val_set_str(input, "name", lease->inputs[i].name);
        set_digest(input, "digest", &lease->inputs[i].object.digest);
        bh_val_set(input, "agent", agent_of_input(&lease->inputs[i]));
    }
}

struct bh_val *bh_provenance_of_output(const struct bh_lease *lease, const struct bh_result *result,
                                       const struct bh_result_output *output, bool tainted, const char *why)
{
    struct bh_val *map = bh_val_map();
    set_object(map, output->name, &output->object);
    bh_val_set_str(map, "run", lease->run.s);
    bh_val_set_str(map, "agent", lease->agent);
    bh_val_set_str(map, "stage", lease->stage);
    bh_val_set_int(map, "attempt", lease->attempt);
    bh_val_set_int(map, "try", lease->try_);
    bh_val_set_str(map, "instance", lease->instance.s);
    bh_val_set_str(map, "box", lease->box.id);
    bh_val_set_str(map, "base", lease->box.base);
    set_layers(map, &lease->box);
    set_command(map, "command", lease->run_argv, lease->n_run);
    set_command(map, "setup", lease->setup, lease->n_setup);
    set_files(map, lease);
    set_inputs(map, lease);
    set_label(map, tainted, why);
    set_wall(map, "started", result->started);
    set_wall(map, "ended", result->ended);
    bh_val_set_int(map, "exit_code", result->exit_code);
    return map;
}

struct bh_val *bh_provenance_of_source(const char *name, const struct bh_object *object, const char *path, bool tainted)
{
    struct bh_val *map = bh_val_map();
    set_object(map, name, object);
    bh_val_set_str(map, "source", path);
    set_label(map, tainted, tainted ? "untrusted: true" : NULL);
    return map;
}
