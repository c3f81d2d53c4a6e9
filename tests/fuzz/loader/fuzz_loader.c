/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes at all through the loader of pipeline documents: it must come back, with a pipeline or with errors that
 * can be shown, never with both or neither.
 */
#include "base/buf.h"
#include "base/val.h"
#include "topologies/pipeline.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(const struct bh_err *err)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    const struct bh_code_info *info = bh_code_info((int)bh_err_code(err));
    BH_ASSERT(info->exit_status == 3 || info->code == BH_E_NOMEM);
    BH_ASSERT(*bh_err_message(err) != '\0');
    BH_ASSERT(bh_err_line(err) >= 0 && bh_err_column(err) >= 0);
    bh_err_format(err, &text);
    for (size_t i = 0; i < text.len; i++)
        BH_ASSERT((unsigned char)text.data[i] >= 0x20 || text.data[i] == '\n' || text.data[i] == '\t');
    bh_val_free(bh_err_to_val(err));
}

/* Everything that a reader of the model would touch first. */
static void check_pipeline(const struct bh_pipeline *p)
{
    BH_ASSERT(p->name.s && *p->name.s && p->n_agents > 0);
    for (size_t i = 0; i < p->n_agents; i++) {
        const struct bh_agent *a = &p->agents[i];
        BH_ASSERT(a->name.s && *a->name.s && a->path && (a->run.set || a->brain.set));
        BH_ASSERT(a->stage < (int)p->n_stages && a->timeouts.run > 0 && a->attempts.count > 0);
        for (size_t k = 0; k < a->n_outputs; k++)
            BH_ASSERT(!a->outputs[k].name.s != !a->outputs[k].glob.s);
        for (size_t k = 0; k < a->n_inputs; k++)
            BH_ASSERT(a->inputs[k].name.s);
        for (size_t k = 0; k < a->files.len; k++)
            BH_ASSERT(a->files.items[k].name.s && a->files.items[k].value.s);
    }
    for (size_t i = 0; i < p->n_later; i++)
        BH_ASSERT(p->later[i].key && p->later[i].path && p->later[i].pos.line > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bh_errlist errors = {0};
    struct bh_pipeline *p = NULL;
    int rc = bh_pipeline_load("fuzz.yaml", size ? (const char *)data : "", size, &p, &errors);
    BH_ASSERT((rc == 0) == (p != NULL) && (rc == 0) == (errors.len == 0));
    for (size_t i = 0; i < errors.len; i++)
        check_error(errors.items[i]);
    if (p)
        check_pipeline(p);
    bh_errlist_fini(&errors);
    bh_pipeline_free(p);
    return 0;
}
