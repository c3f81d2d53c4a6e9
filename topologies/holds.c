/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the rule where {{ }} may stand, and the hints of those who put it elsewhere. Whether a parameter or an axis of
 * a matrix exists is the plan's to say.
 */
#include <ctype.h>

#include "base/mem.h"
#include "topologies/placeholder.h"
#include "topologies/scalar.h"

static const unsigned in_agent =
    1u << BH_HOLD_PARAM | 1u << BH_HOLD_MATRIX | 1u << BH_HOLD_ITEM | 1u << BH_HOLD_ROUND | 1u << BH_HOLD_ATTEMPT;

static unsigned allowed(enum bh_holds holds)
{
    switch (holds) {
    case BH_HOLDS_NONE:
    case BH_HOLDS_SHELL:
        return 0;
    case BH_HOLDS_PARAMS:
        return 1u << BH_HOLD_PARAM;
    case BH_HOLDS_AGENT:
        return in_agent;
    case BH_HOLDS_BRAIN:
        return in_agent | 1u << BH_HOLD_MCP_CONFIG;
    case BH_HOLDS_SECRET:
        return 1u << BH_HOLD_SECRET;
    case BH_HOLDS_URL:
        return 1u << BH_HOLD_URL;
    }
    return 0;
}

/* The variable that a command would use for what stands in the braces: TOPIC for params.topic. */
static const char *variable(struct bh_reader *r, const struct bh_placeholder *p)
{
    char *name = bh_arena_strndup(r->arena, p->name, p->name_len);
    for (char *c = name; *c; c++)
        *c = isascii(*c) && isalnum((unsigned char)*c) ? (char)toupper((unsigned char)*c) : '_';
    return isdigit((unsigned char)*name) ? bh_arena_printf(r->arena, "V_%s", name) : name;
}

static const char *shell_hint(struct bh_reader *r, const char *text, const struct bh_placeholder *p)
{
    if (!(in_agent & 1u << p->kind))
        return "nothing is ever pasted into a shell; a program that needs '{{' itself goes into a file of 'files'";
    const char *v = variable(r, p);
    return bh_arena_printf(r->arena, "nothing is ever pasted into a shell: set env: {%s: \"%.*s\"} and use $%s", v,
                           (int)(p->end - p->start), text + p->start, v);
}

static const char *elsewhere_hint(struct bh_reader *r, enum bh_holds holds)
{
    switch (holds) {
    case BH_HOLDS_PARAMS:
        return "outside of agents only {{params.NAME}} is known";
    case BH_HOLDS_SECRET:
        return "in the headers of an endpoint only {{secrets.NAME}} is known";
    case BH_HOLDS_URL:
        return "in the env of an endpoint only {{url}} is known";
    case BH_HOLDS_AGENT:
    case BH_HOLDS_BRAIN:
        return bh_arena_printf(r->arena, "known are params.NAME, matrix.NAME, item, round, attempt%s",
                               holds == BH_HOLDS_BRAIN ? " and mcp_config" : "");
    case BH_HOLDS_NONE:
    case BH_HOLDS_SHELL:
        break;
    }
    return "{{ }} is expanded in list-form commands, prompt, inputs, outputs, files, base and env of agents only";
}

static void fail(struct bh_reader *r, const struct bh_node *n, const char *hint, bool at_key, enum bh_code code,
                 const char *message)
{
    (at_key ? bh_read_key_error : bh_read_error)(r, n, code, hint, "%s", message);
}

bool bh_check_holds(struct bh_reader *r, const struct bh_node *n, const char *text, enum bh_holds holds, bool at_key)
{
    unsigned good = allowed(holds);
    size_t offset = 0;
    struct bh_placeholder p;
    while (bh_placeholder_next(text, &offset, &p)) {
        if (good & 1u << p.kind)
            continue;
        if (p.kind == BH_HOLD_OPEN) {
            if (!good)
                continue; /* two braces in a text that is used as it stands */
            fail(r, n, "close it with '}}'", at_key, BH_E_BAD_VALUE, "the '{{' is never closed");
            return false;
        }
        int len = (int)(p.end - p.start);
        const char *what = text + p.start;
        if (holds == BH_HOLDS_SHELL)
            fail(r, n, shell_hint(r, text, &p), at_key, BH_E_BAD_VALUE,
                 bh_arena_printf(r->arena, "'%.*s' in a command that is a string", len, what));
        else if (good)
            fail(r, n, elsewhere_hint(r, holds), at_key, BH_E_UNDEFINED,
                 bh_arena_printf(r->arena, "'%.*s' stands for nothing here", len, what));
        else
            fail(r, n, elsewhere_hint(r, holds), at_key, BH_E_BAD_VALUE,
                 bh_arena_printf(r->arena, "'%.*s' is not expanded here", len, what));
        return false;
    }
    return true;
}
