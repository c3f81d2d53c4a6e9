/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the step from a node of the tree to the bytes where it is written. The tree has lines and columns of characters;
 * where what stands there is not what the tree says (an alias), nothing is changed.
 */
#include "topologies/editor.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"

void bh_editor_init(struct bh_editor *ed, const char *text, size_t len, const struct bh_node *root)
{
    *ed = (struct bh_editor){.text = text, .len = len, .root = root};
}

void bh_editor_fini(struct bh_editor *ed)
{
    for (size_t i = 0; i < ed->n_edits; i++)
        bh_free(ed->edits[i].put);
    bh_free(ed->edits);
    bh_free(ed->lines);
    bh_map_free(ed->agents);
    *ed = (struct bh_editor){0};
}

/* --- places --- */

static size_t line_start(const struct bh_editor *ed, size_t at)
{
    while (at > 0 && ed->text[at - 1] != '\n')
        at--;
    return at;
}

/* The first byte of the next line, or the end of the text. */
static size_t next_line(const struct bh_editor *ed, size_t at)
{
    while (at < ed->len && ed->text[at] != '\n')
        at++;
    return at < ed->len ? at + 1 : ed->len;
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

static void index_lines(struct bh_editor *ed)
{
    for (size_t at = 0; at < ed->len || ed->n_lines == 0;) {
        const char *end = memchr(ed->text + at, '\n', ed->len - at);
        *BH_PUSH(ed->lines, ed->n_lines, ed->cap_lines) = at;
        at = end ? (size_t)(end - ed->text) + 1 : ed->len;
    }
}

/* SIZE_MAX where the text has no such place. */
static size_t offset_of(struct bh_editor *ed, struct bh_pos pos)
{
    if (ed->n_lines == 0)
        index_lines(ed);
    if (pos.line < 1 || pos.column < 1 || (size_t)pos.line > ed->n_lines)
        return SIZE_MAX;
    size_t at = ed->lines[pos.line - 1];
    if (at == 0 && ed->len >= 3 && memcmp(ed->text, "\xEF\xBB\xBF", 3) == 0)
        at = 3;
    for (int column = 1; column < pos.column; column++) {
        if (at >= ed->len || ed->text[at] == '\n')
            return SIZE_MAX;
        for (at++; at < ed->len && is_continuation(ed->text[at]);)
            at++;
    }
    return at < ed->len ? at : SIZE_MAX;
}

static size_t indent_at(const struct bh_editor *ed, size_t line)
{
    size_t n = 0;
    while (line + n < ed->len && ed->text[line + n] == ' ')
        n++;
    return n;
}

static bool is_blank(const struct bh_editor *ed, size_t line)
{
    size_t at = line + indent_at(ed, line);
    return at >= ed->len || ed->text[at] == '\n' || ed->text[at] == '\r';
}

static const char *newline_of(const struct bh_editor *ed, size_t at)
{
    size_t end = next_line(ed, at);
    return end >= 2 && ed->text[end - 1] == '\n' && ed->text[end - 2] == '\r' ? "\r\n" : "\n";
}

/* Behind a text in quotes on one line; SIZE_MAX where it has no end there. */
static size_t end_of_quoted(const struct bh_editor *ed, size_t at)
{
    char quote = ed->text[at];
    for (size_t i = at + 1; i < ed->len && ed->text[i] != '\n'; i++) {
        if (quote == '"' && ed->text[i] == '\\')
            i++;
        else if (ed->text[i] == quote && quote == '\'' && i + 1 < ed->len && ed->text[i + 1] == quote)
            i++;
        else if (ed->text[i] == quote)
            return i + 1;
    }
    return SIZE_MAX;
}

/* Behind a list or map in brackets, over lines too. */
static size_t end_of_brackets(const struct bh_editor *ed, size_t at)
{
    size_t depth = 0;
    for (size_t i = at; i < ed->len; i++) {
        char c = ed->text[i];
        if ((c == '"' || c == '\'') && strchr(" \n[{,:", ed->text[i - 1])) {
            i = end_of_quoted(ed, i);
            if (i == SIZE_MAX)
                return SIZE_MAX;
            i--;
        } else if (c == '#' && (ed->text[i - 1] == ' ' || ed->text[i - 1] == '\n')) {
            i = next_line(ed, i) - 1;
        } else if (c == '[' || c == '{') {
            depth++;
        } else if ((c == ']' || c == '}') && --depth == 0) {
            return i + 1;
        }
    }
    return SIZE_MAX;
}

/* The bytes of a value that is written as a whole at its place: false for blocks and for what came from elsewhere. */
static bool span_of(struct bh_editor *ed, const struct bh_node *value, size_t *ret_at, size_t *ret_end)
{
    size_t at = offset_of(ed, bh_node_pos(value)), end = SIZE_MAX;
    if (at == SIZE_MAX || at == 0)
        return false;
    char c = ed->text[at];
    const char *text = bh_node_text(value);
    if (bh_node_kind(value) == BH_NODE_LIST || bh_node_kind(value) == BH_NODE_MAP)
        end = c == '[' || c == '{' ? end_of_brackets(ed, at) : SIZE_MAX;
    else if (text && bh_node_is_plain(value))
        end = strlen(text) <= ed->len - at && memcmp(ed->text + at, text, strlen(text)) == 0 ? at + strlen(text)
                                                                                             : SIZE_MAX;
    else if (text && (c == '"' || c == '\''))
        end = end_of_quoted(ed, at);
    *ret_at = at;
    *ret_end = end;
    return end != SIZE_MAX;
}

/* Where the key of an entry is written; SIZE_MAX where something else stands there. */
static size_t key_offset(struct bh_editor *ed, const struct bh_node *value)
{
    const char *key = bh_node_key(value);
    size_t at = offset_of(ed, bh_node_key_pos(value));
    if (at == SIZE_MAX || !key || strlen(key) > ed->len - at || memcmp(ed->text + at, key, strlen(key)) != 0)
        return SIZE_MAX;
    return at;
}

static bool is_flow(struct bh_editor *ed, const struct bh_node *map)
{
    size_t at = offset_of(ed, bh_node_pos(map));
    return at != SIZE_MAX && ed->text[at] == '{';
}

/* --- changes --- */

static void add_edit(struct bh_editor *ed, size_t at, size_t len, char *put)
{
    *BH_PUSH(ed->edits, ed->n_edits, ed->cap_edits) = (struct bh_edit){at, len, put};
}

static void index_agents(struct bh_editor *ed, const struct bh_node *list)
{
    for (size_t i = 0; i < bh_node_len(list); i++) {
        struct bh_node *agent = bh_node_at(list, i);
        const char *name = bh_node_text(bh_node_get(agent, "name"));
        if (name && !bh_map_has(ed->agents, name))
            bh_map_put(ed->agents, name, agent);
    }
}

const struct bh_node *bh_editor_agent(struct bh_editor *ed, const char *name)
{
    if (!ed->agents) {
        const struct bh_node *stages = bh_node_get(ed->root, "stages");
        ed->agents = bh_map_new(NULL);
        index_agents(ed, bh_node_get(ed->root, "agents"));
        for (size_t i = 0; i < bh_node_len(stages); i++)
            index_agents(ed, bh_node_get(bh_node_at(stages, i), "agents"));
        index_agents(ed, bh_node_get(ed->root, "finally"));
    }
    return bh_map_get(ed->agents, name);
}

bool bh_editor_value_text(struct bh_editor *ed, const struct bh_node *value, struct bh_buf *out)
{
    size_t at, end;
    if (!span_of(ed, value, &at, &end) || memchr(ed->text + at, '\n', end - at))
        return false;
    bh_buf_add(out, ed->text + at, end - at);
    return true;
}

static bool add_entry(struct bh_editor *ed, const struct bh_node *map, const char *key, const char *value)
{
    const struct bh_node *name = bh_node_get(map, "name");
    size_t at, end, key_at = key_offset(ed, name);
    if (key_at == SIZE_MAX || !span_of(ed, name, &at, &end))
        return false;
    if (is_flow(ed, map)) {
        add_edit(ed, end, 0, bh_asprintf(", %s: %s", key, value));
        return true;
    }
    size_t indent = (size_t)bh_node_key_pos(name).column - 1, line = next_line(ed, end);
    bool whole = line > 0 && ed->text[line - 1] == '\n'; /* else the name is the end of the text */
    const char *newline = newline_of(ed, end);
    add_edit(ed, line, 0,
             bh_asprintf("%s%*s%s: %s%s", whole ? "" : newline, (int)indent, "", key, value, whole ? newline : ""));
    return true;
}

bool bh_editor_set(struct bh_editor *ed, const struct bh_node *map, const char *key, const char *value)
{
    const struct bh_node *old = bh_node_get(map, key);
    size_t at, end;
    if (!old)
        return add_entry(ed, map, key, value);
    if (key_offset(ed, old) == SIZE_MAX || !span_of(ed, old, &at, &end) || memchr(ed->text + at, '\n', end - at))
        return false;
    add_edit(ed, at, end - at, bh_strdup(value));
    return true;
}

/* The comma behind an entry goes with it; of the last one that before it. */
static bool remove_flow(struct bh_editor *ed, const struct bh_node *value, size_t key)
{
    size_t at, end, from = key;
    if (!span_of(ed, value, &at, &end))
        return false;
    while (end < ed->len && (ed->text[end] == ' ' || ed->text[end] == '\n'))
        end++;
    if (end < ed->len && ed->text[end] == ',') {
        for (end++; end < ed->len && ed->text[end] == ' ';)
            end++;
    } else {
        while (from > 0 && (ed->text[from - 1] == ' ' || ed->text[from - 1] == '\n'))
            from--;
        if (from == 0 || ed->text[from - 1] != ',')
            return false;
        from--;
    }
    add_edit(ed, from, end - from, bh_strdup(""));
    return true;
}

/* Behind the last line of what begins on the line of `at` and is indented deeper than `indent`, or is a list at it. */
static size_t end_of_block(const struct bh_editor *ed, size_t at, size_t indent, bool lists)
{
    size_t end = next_line(ed, at);
    for (size_t line = end; line < ed->len; line = next_line(ed, line)) {
        size_t n = indent_at(ed, line);
        if (is_blank(ed, line) || (n <= indent && ed->text[line + n] == '#'))
            continue; /* of what stands before it only where more of that follows */
        if (n <= indent && !(lists && n == indent && ed->text[line + n] == '-'))
            break;
        end = next_line(ed, line);
    }
    return end;
}

static bool remove_block(struct bh_editor *ed, const struct bh_node *value, size_t key)
{
    size_t indent = (size_t)bh_node_key_pos(value).column - 1, start = line_start(ed, key);
    size_t end = end_of_block(ed, key, indent, true);
    if (start + indent_at(ed, start) == key) {
        add_edit(ed, start, end - start, bh_strdup(""));
        return true;
    }
    if (end >= ed->len || indent_at(ed, end) != indent) /* the only entry behind its dash */
        return false;
    add_edit(ed, key, end + indent - key, bh_strdup(""));
    return true;
}

bool bh_editor_remove(struct bh_editor *ed, const struct bh_node *map, const char *key)
{
    const struct bh_node *value = bh_node_get(map, key);
    if (!value)
        return true;
    size_t at = key_offset(ed, value);
    if (at == SIZE_MAX)
        return false;
    return is_flow(ed, map) ? remove_flow(ed, value, at) : remove_block(ed, value, at);
}

static char *agent_as_block(size_t indent, const char *newline, const char *const *entries)
{
    struct bh_buf text = BH_BUF_INIT;
    for (size_t i = 0; entries[i]; i += 2)
        bh_buf_addf(&text, "%*s%s%s: %s%s", (int)indent, "", i == 0 ? "- " : "  ", entries[i], entries[i + 1], newline);
    return bh_buf_take(&text);
}

static char *agent_as_flow(const char *const *entries)
{
    struct bh_buf text = BH_BUF_INIT;
    for (size_t i = 0; entries[i]; i += 2)
        bh_buf_addf(&text, "%s%s: %s", i == 0 ? ", {" : ", ", entries[i], entries[i + 1]);
    bh_buf_addc(&text, '}');
    return bh_buf_take(&text);
}

bool bh_editor_add_agent(struct bh_editor *ed, const struct bh_node *agent, const char *const *entries)
{
    size_t at = offset_of(ed, bh_node_pos(agent));
    if (at == SIZE_MAX || at == 0)
        return false;
    size_t dash = at - 1;
    while (dash > 0 && ed->text[dash] == ' ')
        dash--;
    if (ed->text[dash] == '-') {
        size_t indent = dash - line_start(ed, dash), end = end_of_block(ed, at, indent, false);
        if (ed->text[end - 1] != '\n')
            return false;
        add_edit(ed, end, 0, agent_as_block(indent, newline_of(ed, at), entries));
        return true;
    }
    size_t end = is_flow(ed, agent) ? end_of_brackets(ed, at) : SIZE_MAX;
    if (end == SIZE_MAX)
        return false;
    add_edit(ed, end, 0, agent_as_flow(entries));
    return true;
}

/* JSON, which is YAML too. */
char *bh_editor_quote(const char *text)
{
    BH_CLEANUP_VAL struct bh_val *v = bh_val_str(text);
    struct bh_buf out = BH_BUF_INIT;
    bh_json_format(v, &out);
    return bh_buf_take(&out);
}

/* --- the whole --- */

static int by_place(const void *a, const void *b)
{
    const struct bh_edit *x = *(const struct bh_edit *const *)a, *y = *(const struct bh_edit *const *)b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    if ((x->len == 0) != (y->len == 0)) /* what is put before comes before what goes */
        return x->len == 0 ? -1 : 1;
    return x < y ? -1 : x > y; /* what was asked for first comes first */
}

bool bh_editor_result(struct bh_editor *ed, struct bh_buf *out)
{
    size_t at = 0;
    BH_CLEANUP_FREE const struct bh_edit **order = bh_calloc(ed->n_edits + 1, sizeof(*order));
    for (size_t i = 0; i < ed->n_edits; i++)
        order[i] = &ed->edits[i];
    qsort(order, ed->n_edits, sizeof(*order), by_place);
    for (size_t i = 0; i < ed->n_edits; i++) {
        if (order[i]->at < at)
            return false;
        bh_buf_add(out, ed->text + at, order[i]->at - at);
        bh_buf_adds(out, order[i]->put);
        at = order[i]->at + order[i]->len;
    }
    bh_buf_add(out, ed->text + at, ed->len - at);
    return true;
}
