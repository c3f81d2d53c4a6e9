/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the commands of `validate`, in `accept` and in outputs: their values are put in like those of other commands. */
#include "topologies/fill.h"

const char **bh_plan_validate_command(struct bh_planner *pl, const struct bh_scope *scope,
                                      const struct bh_node *validate, const char *owner, size_t *ret_n)
{
    const struct bh_node *list = bh_node_get(validate, "command");
    struct bh_command cmd = {.set = list != NULL, .is_list = true};
    size_t n = bh_node_len(list);
    cmd.args.items = bh_arena_alloc(pl->arena, (n + 1) * sizeof(*cmd.args.items));
    for (; cmd.args.len < n; cmd.args.len++) {
        const struct bh_node *item = bh_node_at(list, cmd.args.len);
        cmd.args.items[cmd.args.len] = (struct bh_str){.s = bh_node_text(item), .pos = bh_node_pos(item)};
    }
    return bh_fill_command(pl, scope, &cmd, owner, "validate.command", ret_n);
}
