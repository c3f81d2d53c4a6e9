/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only user of the YAML library. Owns the way from its events to the positioned tree: anchors, aliases, `<<`,
 * duplicate keys, and the budgets on depth and nodes. Assumes bytes that passed bh_bytes_check (the library is not safe
 * on others); must never use the library's own documents (no positions for maps and lists, quadratic key check) and
 * never let it print.
 *
 * A collection is hung into its parent where it starts, so that every error can name the path at once.
 */
#include "topologies/yaml_tree.h"

#include <libfyaml.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "topologies/node_priv.h"

enum { SMALL_MAP = 16 }; /* up to here a walk over the keys is quicker than a map */

struct frame { /* an open list or map */
    struct bh_node *node;
    struct bh_map *keys; /* once the map is no longer small */
    const char *key;     /* a key that waits for its value, else NULL */
    struct bh_pos key_pos;
    bool drop;             /* its value is thrown away: the key was there before */
    bool merging;          /* it is `<<` */
    struct bh_node *merge; /* the value of `<<` */
};

struct builder {
    const char *file;
    struct bh_arena *arena;
    struct bh_errlist *errors;
    struct bh_map *anchors; /* name to node */
    struct bh_node *root;
    struct frame stack[BH_TREE_MAX_DEPTH];
    size_t depth, nodes, documents;
    struct bh_pos last_end; /* where the event before ended: the place of values that were left out */
    bool broken;            /* the tree does not hold what the document says: nobody should read it */
    bool stop;              /* parsing ends here */
};

static struct frame *top(struct builder *b)
{
    return b->depth ? &b->stack[b->depth - 1] : NULL;
}

static struct bh_pos pos_of(const struct fy_mark *mark, struct bh_pos otherwise)
{
    return mark ? (struct bh_pos){mark->line + 1, mark->column + 1} : otherwise;
}

/* Where an event starts. The library's marks stand behind the quote of a text and behind the '*' of an alias. */
static struct bh_pos start_of(struct fy_event *event, struct bh_pos otherwise)
{
    struct bh_pos pos = pos_of(fy_event_start_mark(event), otherwise);
    enum fy_node_style style = event->type == FYET_SCALAR ? fy_event_get_node_style(event) : FYNS_ANY;
    bool quoted = style == FYNS_SINGLE_QUOTED || style == FYNS_DOUBLE_QUOTED;
    if ((quoted || event->type == FYET_ALIAS) && pos.column > 1)
        pos.column--;
    return pos;
}

/* The path of what comes next: the value of the waiting key, the next item of the list. */
static const char *next_path(struct builder *b)
{
    const struct frame *f = top(b);
    if (!f)
        return NULL;
    struct bh_node next = {.parent = f->node, .key = f->key, .index = f->node->len};
    return bh_node_path(f->node->kind == BH_NODE_MAP && !f->key ? f->node : &next, b->arena);
}

/* Takes err. */
static void report(struct builder *b, struct bh_pos pos, struct bh_err *err)
{
    const char *path = next_path(b);
    bh_err_at(&err, b->file, pos.line, pos.column, path && *path ? path : NULL);
    if (b->errors->len < BH_PIPELINE_MAX_ERRORS)
        bh_errlist_add(b->errors, err);
    else
        bh_err_free(err);
}

static bool count_node(struct builder *b, struct bh_pos pos)
{
    if (++b->nodes <= BH_TREE_MAX_NODES)
        return true;
    if (!b->stop) {
        struct bh_err *err = NULL;
        bh_err_set(&err, BH_E_TOO_LARGE, 0, "the document has more than %d keys, values and copies of aliases",
                   BH_TREE_MAX_NODES);
        report(b, pos, err);
    }
    b->stop = true;
    return false;
}

static bool check_depth(struct builder *b, size_t depth, struct bh_pos pos)
{
    if (depth < BH_TREE_MAX_DEPTH)
        return true;
    if (!b->stop) {
        struct bh_err *err = NULL;
        bh_err_set(&err, BH_E_TOO_LARGE, 0, "the document is more than %d levels deep", BH_TREE_MAX_DEPTH);
        report(b, pos, err);
    }
    b->stop = true;
    return false;
}

/* --- keys --- */

static struct bh_node *find_key(struct frame *f, const char *key)
{
    return f->keys ? bh_map_get(f->keys, key) : bh_node_get(f->node, key);
}

static void remember_key(struct frame *f, struct bh_node *value)
{
    if (f->keys) {
        bh_map_put(f->keys, value->key, value);
        return;
    }
    if (f->node->len < SMALL_MAP)
        return;
    f->keys = bh_map_new(NULL);
    for (size_t i = 0; i < f->node->len; i++)
        bh_map_put(f->keys, f->node->items[i]->key, f->node->items[i]);
}

static void report_duplicate(struct builder *b, struct bh_pos pos, const char *key, struct bh_pos first)
{
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_DUPLICATE_KEY, 0, "the key '%s' is given twice: first at line %d, column %d", key, first.line,
               first.column);
    report(b, pos, err);
}

static void take_key(struct builder *b, const char *key, bool plain, struct bh_pos pos)
{
    struct frame *f = top(b);
    f->key = key;
    f->key_pos = pos;
    f->merging = plain && bh_streq(key, "<<");
    const struct bh_node *first = f->merging ? f->merge : find_key(f, key);
    f->drop = first != NULL;
    if (first)
        report_duplicate(b, pos, key, first->key_pos);
}

/* --- values --- */

static void attach(struct builder *b, struct bh_node *n)
{
    struct frame *f = top(b);
    if (!f) {
        b->root = n;
        return;
    }
    if (f->node->kind == BH_NODE_LIST) {
        bh_node_adopt(b->arena, f->node, n);
        return;
    }
    n->parent = f->node;
    n->key = f->key;
    n->key_pos = f->key_pos;
    f->key = NULL;
    if (f->drop)
        return;
    if (f->merging) {
        f->merge = n;
        return;
    }
    bh_node_adopt(b->arena, f->node, n);
    remember_key(f, n);
}

static bool wants_key(struct builder *b)
{
    const struct frame *f = top(b);
    return f && f->node->kind == BH_NODE_MAP && !f->key;
}

/* A copy that keeps the positions. `depth` is that of the copy. NULL where a budget is spent. */
static struct bh_node *copy_node(struct builder *b, const struct bh_node *from, size_t depth, struct bh_pos at)
{
    if (!count_node(b, at) || (from->len > 0 && !check_depth(b, depth, at)))
        return NULL;
    struct bh_node *n = bh_node_new(b->arena, from->kind, from->pos);
    n->plain = from->plain;
    n->text = from->text;
    for (size_t i = 0; i < from->len; i++) {
        struct bh_node *item = copy_node(b, from->items[i], depth + 1, at);
        if (!item)
            return NULL;
        item->key = from->items[i]->key;
        item->key_pos = from->items[i]->key_pos;
        bh_node_adopt(b->arena, n, item);
    }
    return n;
}

/* --- merging `<<` --- */

static bool merge_map(struct frame *f, struct bh_arena *arena, struct bh_node *from)
{
    if (from->kind != BH_NODE_MAP)
        return false;
    for (size_t i = 0; i < from->len; i++) {
        struct bh_node *entry = from->items[i];
        if (find_key(f, entry->key))
            continue;
        bh_node_adopt(arena, f->node, entry);
        remember_key(f, entry);
    }
    return true;
}

/* Explicit keys win over merged ones, earlier maps of a list over later ones. */
static void apply_merge(struct builder *b, struct frame *f)
{
    struct bh_node *from = f->merge;
    bool good = true;
    if (from->kind == BH_NODE_LIST) {
        for (size_t i = 0; i < from->len; i++)
            good = merge_map(f, b->arena, from->items[i]) && good;
    } else {
        good = merge_map(f, b->arena, from);
    }
    if (good || from->kind == BH_NODE_EMPTY)
        return; /* empty: the alias was no good, and has its error */
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_WRONG_TYPE, 0, "'<<' takes a map, or a list of maps");
    bh_err_hint(&err, "write <<: *name, where &name stands before a map");
    report(b, from->pos, err);
    b->broken = true;
}

/* --- events --- */

static char *token_text(struct builder *b, struct fy_token *token, struct bh_pos pos)
{
    size_t len = 0;
    const char *text = token ? fy_token_get_text(token, &len) : NULL;
    if (!text)
        return bh_arena_strdup(b->arena, "");
    /* escapes in double quotes can make what the check of the bytes kept out */
    bool nul = memchr(text, 0, len) != NULL;
    if (nul || bh_utf8_check(text, len) != len) {
        struct bh_err *err = NULL;
        bh_err_set(&err, BH_E_ENCODING, 0,
                   nul ? "the text holds an escaped NUL" : "the text holds an escape that is no character");
        bh_err_hint(&err, "mend the escape, or put the text in single quotes, where there are none");
        report(b, pos, err);
        b->broken = true;
        return bh_arena_strdup(b->arena, "");
    }
    return bh_arena_strndup(b->arena, text, len);
}

static void note_anchor(struct builder *b, struct fy_event *event, struct bh_node *n)
{
    struct fy_token *anchor = fy_event_get_anchor_token(event);
    if (anchor)
        bh_map_put(b->anchors, token_text(b, anchor, n->pos), n);
}

static void refuse_tag(struct builder *b, struct fy_event *event, struct bh_pos pos)
{
    struct fy_token *tag = fy_event_get_tag_token(event);
    if (!tag)
        return;
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_SYNTAX, 0, "the tag '%s' is not allowed: the key says what type a value has",
               token_text(b, tag, pos));
    bh_err_hint(&err, "take the tag out; text that starts with '!' is quoted");
    report(b, pos, err);
}

static void refuse_complex_key(struct builder *b, struct bh_pos pos)
{
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_SYNTAX, 0, "a key must be a text, not a list or a map");
    bh_err_hint(&err, "text that starts with '{' or '[' is quoted");
    report(b, pos, err);
    b->stop = true;
}

static void on_scalar(struct builder *b, struct fy_event *event, struct bh_pos pos)
{
    const char *text = token_text(b, fy_event_get_token(event), pos);
    bool plain = fy_event_get_node_style(event) == FYNS_PLAIN || fy_event_get_node_style(event) == FYNS_ANY;
    struct bh_node *n = bh_node_new(b->arena, plain && !*text ? BH_NODE_EMPTY : BH_NODE_SCALAR, pos);
    n->plain = plain;
    n->text = text;
    note_anchor(b, event, n);
    if (wants_key(b))
        take_key(b, text, plain, pos);
    else
        attach(b, n);
}

static void on_start(struct builder *b, struct fy_event *event, enum bh_node_kind kind, struct bh_pos pos)
{
    if (wants_key(b)) {
        refuse_complex_key(b, pos);
        return;
    }
    if (!check_depth(b, b->depth, pos))
        return;
    struct bh_node *n = bh_node_new(b->arena, kind, pos);
    note_anchor(b, event, n);
    attach(b, n);
    b->stack[b->depth++] = (struct frame){.node = n};
}

static void on_end(struct builder *b)
{
    struct frame *f = top(b);
    if (f->merge)
        apply_merge(b, f);
    bh_map_free(BH_TAKE(f->keys));
    b->depth--;
}

static bool is_open(const struct builder *b, const struct bh_node *n)
{
    for (size_t i = 0; i < b->depth; i++) {
        if (b->stack[i].node == n)
            return true;
    }
    return false;
}

/* The node an alias stands for; where there is none, an error and an empty node. */
static struct bh_node *resolve(struct builder *b, const char *name, struct bh_pos pos)
{
    struct bh_err *err = NULL;
    const struct bh_node *from = bh_map_get(b->anchors, name);
    if (from && !is_open(b, from))
        return copy_node(b, from, b->depth, pos);
    if (from) {
        bh_err_set(&err, BH_E_CYCLE, 0, "the alias '*%s' stands inside of what it repeats", name);
    } else {
        bh_err_set(&err, BH_E_UNDEFINED, 0, "the alias '*%s' names no anchor", name);
        bh_err_hint(&err, "put &%s before the value it repeats, further up; text that starts with '*' is quoted", name);
    }
    report(b, pos, err);
    b->broken = true;
    return bh_node_new(b->arena, BH_NODE_EMPTY, pos);
}

static void on_alias(struct builder *b, struct fy_event *event, struct bh_pos pos)
{
    struct bh_node *n = resolve(b, token_text(b, fy_event_get_token(event), pos), pos);
    if (!n)
        return;
    if (!wants_key(b))
        attach(b, n);
    else if (n->kind == BH_NODE_SCALAR)
        take_key(b, n->text, n->plain, pos);
    else
        refuse_complex_key(b, pos);
}

static void on_document(struct builder *b, struct bh_pos pos)
{
    if (++b->documents < 2)
        return;
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_SYNTAX, 0, "a second document starts here: a file holds one");
    bh_err_hint(&err, "put it in a file of its own, or take the line '---' out");
    report(b, pos, err);
    b->stop = true;
}

static void on_event(struct builder *b, struct fy_event *event)
{
    struct bh_pos pos = start_of(event, b->last_end);
    bool node = event->type == FYET_SCALAR || event->type == FYET_ALIAS || event->type == FYET_SEQUENCE_START ||
                event->type == FYET_MAPPING_START;
    if (node && !count_node(b, pos))
        return;
    if (node && event->type != FYET_ALIAS)
        refuse_tag(b, event, pos);
    switch (event->type) {
    case FYET_SCALAR:
        on_scalar(b, event, pos);
        break;
    case FYET_ALIAS:
        on_alias(b, event, pos);
        break;
    case FYET_SEQUENCE_START:
        on_start(b, event, BH_NODE_LIST, pos);
        break;
    case FYET_MAPPING_START:
        on_start(b, event, BH_NODE_MAP, pos);
        break;
    case FYET_SEQUENCE_END:
    case FYET_MAPPING_END:
        on_end(b);
        break;
    case FYET_DOCUMENT_START:
        on_document(b, pos);
        break;
    default:
        break;
    }
    b->last_end = pos_of(fy_event_end_mark(event), b->last_end);
}

/* --- the library --- */

static struct fy_diag *quiet_diag(void)
{
    struct fy_diag_cfg cfg;
    fy_diag_cfg_default(&cfg);
    cfg.fp = NULL;
    cfg.output_fn = NULL;
    cfg.level = FYET_ERROR;
    struct fy_diag *diag = fy_diag_create(&cfg);
    if (diag)
        fy_diag_set_collect_errors(diag, true);
    return diag;
}

/* The start of a line; NULL where the text has fewer. */
static const char *line_at(const char *text, size_t len, int line)
{
    const char *p = text, *end = text + len;
    for (int i = 1; i < line && p; i++) {
        p = memchr(p, '\n', (size_t)(end - p));
        p = p ? p + 1 : NULL;
    }
    return p && p < end ? p : NULL;
}

/* What people trip over, in our words: the library names what it missed, not what they wrote. */
static void explain_syntax(struct bh_err **err, const char *text, size_t len, int line)
{
    const char *p = line_at(text, len, line);
    const char *end = p ? memchr(p, '\n', len - (size_t)(p - text)) : NULL;
    size_t n = p ? (end ? (size_t)(end - p) : len - (size_t)(p - text)) : 0, blanks = 0;
    while (blanks < n && p[blanks] == ' ')
        blanks++;
    if (blanks < n && p[blanks] == '\t')
        bh_err_hint(err, "line %d is indented with a tab; indent with spaces", line);
    else if (n > 0 && memmem(p, n, "{{", 2))
        bh_err_hint(err, "a text with '{{ }}' in it is put in quotes");
    else if (strstr(bh_err_message(*err), "nested block mapping"))
        bh_err_hint(err, "a text with ': ' in it is put in quotes");
}

static void report_syntax(struct builder *b, struct fy_diag *diag, const char *text, size_t len)
{
    void *it = NULL;
    const struct fy_diag_error *e = fy_diag_errors_iterate(diag, &it);
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_SYNTAX, 0, "this is not YAML: %s", e && e->msg ? e->msg : "the parser gave no reason");
    struct bh_pos pos = e && e->line > 0 ? (struct bh_pos){e->line, e->column} : b->last_end;
    explain_syntax(&err, text, len, pos.line);
    report(b, pos, err);
    b->stop = true;
}

static void report_nomem(struct builder *b)
{
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_NOMEM, 0, "no memory for the YAML parser");
    report(b, (struct bh_pos){1, 1}, err);
    b->stop = true;
}

static void run_parser(struct builder *b, struct fy_parser *parser, struct fy_diag *diag, const char *text, size_t len)
{
    struct fy_event *event;
    while (!b->stop && (event = fy_parser_parse(parser)) != NULL) {
        on_event(b, event);
        fy_parser_event_free(parser, event);
    }
    if (!b->stop && fy_parser_get_stream_error(parser))
        report_syntax(b, diag, text, len);
}

static void parse(struct builder *b, const char *text, size_t len)
{
    struct fy_diag *diag = quiet_diag();
    struct fy_parse_cfg cfg = {.flags = FYPCF_DISABLE_DEPTH_LIMIT, .diag = diag};
    struct fy_parser *parser = diag ? fy_parser_create(&cfg) : NULL;
    if (parser && fy_parser_set_string(parser, text, len) == 0)
        run_parser(b, parser, diag, text, len);
    else
        report_nomem(b);
    if (parser)
        fy_parser_destroy(parser);
    /* destroy, not unref: that would leak the errors it collected */
    fy_diag_destroy(diag);
}

static void report_empty(struct builder *b)
{
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_INVALID, 0, "the document is empty");
    bh_err_hint(&err, "'bulkhead init' writes one to start from");
    report(b, (struct bh_pos){1, 1}, err);
    b->stop = true;
}

int bh_tree_parse(const char *file, const char *text, size_t len, struct bh_arena *arena, struct bh_node **ret_root,
                  struct bh_errlist *errors)
{
    struct builder *b = bh_alloc(sizeof(*b));
    *b = (struct builder){.file = file, .arena = arena, .errors = errors, .last_end = {1, 1}};
    b->anchors = bh_map_new(NULL);
    size_t before = errors->len;
    parse(b, text, len);
    if (!b->stop && bh_node_kind(b->root) == BH_NODE_EMPTY)
        report_empty(b);
    *ret_root = b->stop || b->broken ? NULL : b->root;
    for (size_t i = 0; i < b->depth; i++)
        bh_map_free(b->stack[i].keys);
    bh_map_free(b->anchors);
    bh_free(b);
    return errors->len > before ? -(int)bh_err_code(errors->items[before]) : 0;
}
