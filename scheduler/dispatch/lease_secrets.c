/* SPDX-License-Identifier: Apache-2.0 */
/* Copies references to secrets from the document into leases (lease_secrets.h). Reads no variable, file or command. */
#include "scheduler/dispatch/lease_secrets.h"

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"

static const struct bh_secret_doc *find(const struct bh_pipeline *p, const char *name)
{
    for (size_t i = 0; i < p->n_secrets; i++) {
        if (bh_streq(p->secrets[i].name.s, name))
            return &p->secrets[i];
    }
    return NULL;
}

/* Whoever goes on with the run later may stand in another folder. */
static char *from_folder(const char *file, const char *path)
{
    BH_CLEANUP_FREE char *folder = bh_path_dirname(file);
    return bh_path_join(folder, path);
}

void bh_lease_secret_of(const struct bh_pipeline *p, const char *file, const char *name, const char *variable,
                        struct bh_lease_secret *ret)
{
    const struct bh_secret_doc *doc = find(p, name);
    BH_ASSERT(doc); /* the loader has checked it */
    const struct bh_strs *words = &doc->command.args;
    *ret = (struct bh_lease_secret){
        .variable = bh_strdup(variable),
        .name = bh_strdup(name),
        .env = bh_strdup(doc->env.s),
        .file = doc->file.s ? from_folder(file, doc->file.s) : NULL,
        .command = bh_calloc(words->len + 1, sizeof(char *)),
        .n_command = words->len,
    };
    for (size_t i = 0; i < words->len; i++) {
        bool path = i == 0 && strchr(words->items[i].s, '/');
        ret->command[i] = path ? from_folder(file, words->items[i].s) : bh_strdup(words->items[i].s);
    }
}

void bh_lease_fill_secrets(const struct bh_pipeline *p, const char *file, const struct bh_agent *agent,
                           struct bh_lease *lease)
{
    lease->n_secrets = agent->secrets.len;
    lease->secrets = bh_calloc(lease->n_secrets + 1, sizeof(*lease->secrets));
    for (size_t i = 0; i < lease->n_secrets; i++)
        bh_lease_secret_of(p, file, agent->secrets.items[i].s, agent->secret_variables[i], &lease->secrets[i]);
}
