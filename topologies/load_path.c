/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns how paths and commands of the document are read. Looks at their text alone: whether a file exists is asked when
 * a run is submitted.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "topologies/placeholder.h"
#include "topologies/scalar.h"

static void path_error(struct bh_reader *r, const struct bh_node *n, bool at_key, const char *text, const char *why)
{
    (at_key ? bh_read_key_error : bh_read_error)(r, n, BH_E_BAD_VALUE, NULL, "the path '%s' %s", text, why);
}

/* Appends the segments of `text` without "." and empty ones. Returns what is wrong, or NULL. */
static const char *clean(const char *text, struct bh_buf *out)
{
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, "/");
        if (n == 2 && memcmp(s, "..", 2) == 0)
            return "has '..' in it";
        if (n > 0 && !(n == 1 && *s == '.')) {
            if (out->len > 0)
                bh_buf_addc(out, '/');
            bh_buf_add(out, s, n);
        }
        s += n;
        s += *s == '/';
    }
    return out->len == 0 ? "names the folder itself" : NULL;
}

/* Behind "<root>/", or `text` where it is relative; NULL where it is another absolute path. */
static const char *below(const char *text, const char *root)
{
    if (*text != '/')
        return text;
    size_t n = strlen(root);
    return bh_starts_with(text, root) && (text[n] == '/' || text[n] == '\0') ? text + n : NULL;
}

bool bh_clean_path(struct bh_reader *r, const struct bh_node *n, const char *text, const char *root, bool at_key,
                   struct bh_str *ret)
{
    if (*text == '\0') {
        path_error(r, n, at_key, text, "is empty");
        return false;
    }
    const char *rest = below(text, root);
    if (!rest) {
        path_error(r, n, at_key, text, bh_arena_printf(r->arena, "is not below %s", root));
        return false;
    }
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    const char *problem = clean(rest, &out);
    if (!problem && bh_streq(root, "/workspace") && bh_path_is_agents_own(out.data))
        problem = "is where bulkhead puts what is the agent's own; choose another name";
    if (problem) {
        path_error(r, n, at_key, text, problem);
        return false;
    }
    ret->s = bh_arena_strndup(r->arena, out.data, out.len);
    ret->pos = at_key ? bh_node_key_pos(n) : bh_node_pos(n);
    return true;
}

bool bh_read_host_path(struct bh_reader *r, const struct bh_node *n, enum bh_holds holds, struct bh_str *ret)
{
    struct bh_str path;
    if (!bh_read_filled(r, n, "a path", holds, &path))
        return false;
    BH_CLEANUP_BUF struct bh_buf blank = BH_BUF_INIT;
    bh_placeholder_blank(path.s, &blank);
    const char *problem = *blank.data == '/' ? "is absolute: paths lie beneath the folder of this file"
                          : bh_path_escapes(blank.data, strlen(blank.data)) ? "leads out of the folder of this file"
                                                                            : NULL;
    if (problem) {
        path_error(r, n, false, path.s, problem);
        return false;
    }
    *ret = path;
    return true;
}

/* --- commands --- */

static bool check_length(struct bh_reader *r, const struct bh_node *n, const struct bh_str *arg)
{
    if (strlen(arg->s) < BH_ENV_MAX)
        return true;
    bh_read_error(r, n, BH_E_BAD_VALUE, "put the text into a file of 'files'",
                  "an argument of %zu bytes: the system takes less than 128 KiB", strlen(arg->s));
    return false;
}

static bool read_argv(struct bh_reader *r, const struct bh_node *n, enum bh_holds holds, struct bh_command *cmd)
{
    bool good = true;
    if (bh_node_len(n) == 0) {
        bh_read_error(r, n, BH_E_BAD_VALUE, NULL, "expected a command, found an empty list");
        return false;
    }
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct bh_str arg;
        const struct bh_node *item = bh_node_at(n, i);
        bool read = i == 0 ? bh_read_filled(r, item, "a program", holds, &arg)
                           : bh_read_text(r, item, "an argument as a text", holds, &arg);
        if (read && check_length(r, item, &arg))
            *BH_ARENA_PUSH(r->arena, cmd->args.items, cmd->args.len, cmd->args.cap) = arg;
        else
            good = false;
    }
    return good;
}

bool bh_read_command(struct bh_reader *r, const struct bh_node *n, enum bh_holds holds, struct bh_command *ret)
{
    struct bh_command cmd = {.set = true, .pos = bh_node_pos(n), .is_list = bh_node_kind(n) == BH_NODE_LIST};
    struct bh_str text;
    if (cmd.is_list) {
        if (!read_argv(r, n, holds, &cmd))
            return false;
    } else {
        if (!bh_read_filled(r, n, "a command as a string or a list of strings", BH_HOLDS_SHELL, &text) ||
            !check_length(r, n, &text))
            return false;
        *BH_ARENA_PUSH(r->arena, cmd.args.items, cmd.args.len, cmd.args.cap) = text;
    }
    *ret = cmd;
    return true;
}
