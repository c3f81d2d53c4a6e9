/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the reading of token counts. Assumes that a reply is what it says to be; where it is not, nothing is counted and
 * nothing breaks. Must never keep more of it than one key and one number.
 */
#include "policies/broker/endpoint_usage.h"

#include <string.h>
#include <strings.h>

/* Where numbers stand; the order is that of `counters`. */
static const struct place {
    const char *path[BH_USAGE_DEPTH]; /* `*`: under "", "message" or "response" */
    bool output;
    bool adds; /* beside the others; of those that do not add, the largest counts */
} places[BH_USAGE_COUNTERS] = {
    {{"*", "usage", "input_tokens"}, false, false},
    {{"*", "usage", "prompt_tokens"}, false, false},
    {{"*", "usage", "cache_creation_input_tokens"}, false, true},
    {{"*", "usage", "cache_read_input_tokens"}, false, true},
    {{"*", "usage", "output_tokens"}, true, false},
    {{"*", "usage", "completion_tokens"}, true, false},
    {{NULL, "usageMetadata", "promptTokenCount"}, false, false},
    {{NULL, "usageMetadata", "candidatesTokenCount"}, true, false},
    {{NULL, NULL, "prompt_eval_count"}, false, false},
    {{NULL, NULL, "eval_count"}, true, false},
};

static void json_reset(struct bh_usage *u)
{
    u->depth = 0;
    u->in_text = u->escaped = u->in_number = false;
    u->n_text = 0;
    u->number = 0;
    memset(u->keys, 0, sizeof(u->keys));
}

void bh_usage_begin(struct bh_usage *u, const char *content_type)
{
    *u = (struct bh_usage){.form = BH_USAGE_NONE};
    size_t len = content_type ? strcspn(content_type, "; \t") : 0;
    if (len == 17 && !strncasecmp(content_type, "text/event-stream", len))
        u->form = BH_USAGE_EVENTS;
    else if (len >= 4 && (!strncasecmp(content_type + len - 4, "json", 4) ||
                          (len >= 6 && !strncasecmp(content_type + len - 6, "ndjson", 6)) ||
                          (len >= 5 && !strncasecmp(content_type + len - 5, "jsonl", 5))))
        u->form = BH_USAGE_JSON;
}

/* Whether the keys above the last one are those of the place, whose path ends at `depth`. */
static bool fits(const struct bh_usage *u, const struct place *p)
{
    unsigned depth = u->depth;
    if (depth < 1 || depth > BH_USAGE_DEPTH || strcmp(u->keys[depth], p->path[2]) != 0)
        return false;
    if (!p->path[1])
        return depth == 1;
    if (depth < 2 || strcmp(u->keys[depth - 1], p->path[1]) != 0)
        return false;
    if (depth == 2)
        return true;
    return p->path[0] && (!strcmp(u->keys[1], "message") || !strcmp(u->keys[1], "response"));
}

static void end_number(struct bh_usage *u)
{
    u->in_number = false;
    for (size_t i = 0; i < BH_USAGE_COUNTERS; i++) {
        if (fits(u, &places[i]) && u->number > u->counters[i])
            u->counters[i] = u->number;
    }
}

/* How many bytes neither end a string nor escape what follows: eight at once, for most of a reply is text. */
static size_t plain(const char *p, size_t len)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones << 7;
    size_t n = 0;
    for (; len - n >= sizeof(uint64_t); n += sizeof(uint64_t)) {
        uint64_t word, quote, slash;
        memcpy(&word, p + n, sizeof(word));
        quote = word ^ ones * '"';
        slash = word ^ ones * '\\';
        if ((((quote - ones) & ~quote) | ((slash - ones) & ~slash)) & highs)
            break;
    }
    while (n < len && p[n] != '"' && p[n] != '\\')
        n++;
    return n;
}

static void add_text(struct bh_usage *u, const char *p, size_t n)
{
    if (n >= BH_USAGE_KEY - u->n_text) {
        u->n_text = BH_USAGE_KEY;
        return;
    }
    memcpy(u->text + u->n_text, p, n);
    u->n_text += (unsigned)n;
}

/* In a string: takes what goes on like this. */
static size_t take_text(struct bh_usage *u, const char *p, size_t len)
{
    if (u->escaped) {
        u->escaped = false;
        u->n_text = BH_USAGE_KEY; /* no key that counts has an escape in it */
        return 1;
    }
    size_t n = plain(p, len);
    add_text(u, p, n);
    if (n == len)
        return n;
    u->escaped = p[n] == '\\';
    u->in_text = u->escaped;
    return n + 1;
}

static void set_key(struct bh_usage *u, bool from_text)
{
    if (u->depth > BH_USAGE_DEPTH)
        return;
    size_t n = from_text && u->n_text < BH_USAGE_KEY ? u->n_text : 0;
    memcpy(u->keys[u->depth], u->text, n);
    u->keys[u->depth][n] = '\0';
}

static void json_byte(struct bh_usage *u, char c)
{
    if (c >= '0' && c <= '9') {
        if (!u->in_number)
            u->number = 0;
        u->in_number = true;
        u->number = u->number < INT64_C(1000000000000) ? u->number * 10 + (c - '0') : u->number;
        return;
    }
    if (u->in_number)
        end_number(u);
    switch (c) {
    case '"':
        u->in_text = true;
        u->n_text = 0;
        break;
    case ':':
        set_key(u, true);
        break;
    case ',':
        set_key(u, false);
        break;
    case '{':
    case '[':
        u->depth += u->depth < 1000000;
        set_key(u, false);
        break;
    case '}':
    case ']':
        u->depth -= u->depth > 0;
        break;
    default:
        break;
    }
}

static void json_feed(struct bh_usage *u, const char *p, size_t len)
{
    for (size_t at = 0; at < len;) {
        if (u->in_text)
            at += take_text(u, p + at, len - at);
        else
            json_byte(u, p[at++]);
    }
}

/* An event's data may stand in several lines; it ends with an empty one. */
static void line_end(struct bh_usage *u)
{
    if (u->line == BH_LINE_START && u->n_field == 0)
        json_reset(u);
    else if (u->line == BH_LINE_DATA)
        json_feed(u, "\n", 1);
    u->line = BH_LINE_START;
    u->n_field = 0;
}

static void line_start(struct bh_usage *u, char c)
{
    static const char data[] = "data:";
    if (c == '\r')
        return;
    if (c == '\n')
        line_end(u);
    else if (c != data[u->n_field])
        u->line = BH_LINE_OTHER;
    else if (++u->n_field == sizeof(data) - 1)
        u->line = BH_LINE_DATA;
}

/* Where the word begins, found by that byte of it; `len` where it is not. */
static size_t find_word(const char *p, size_t len, const char *word, size_t rare)
{
    size_t n = strlen(word);
    for (size_t at = rare; at < len; at++) {
        const char *found = memchr(p + at, word[rare], len - at);
        if (!found)
            break;
        at = (size_t)(found - p);
        if (at - rare + n <= len && memcmp(found - rare, word, n) == 0)
            return at - rare;
    }
    return len;
}

/* Between events: how much may be skipped, up to where an event ends, for no place that counts is without these words.
 */
static size_t dull_events(const char *p, size_t len)
{
    len = find_word(p, len, "usage", 3);
    len = find_word(p, len, "eval_count", 1);
    const char *end;
    while ((end = memrchr(p, '\n', len))) {
        len = (size_t)(end - p);
        if ((len > 0 && end[-1] == '\n') || (len > 1 && end[-1] == '\r' && end[-2] == '\n'))
            return len + 1;
    }
    return 0;
}

static void events_feed(struct bh_usage *u, const char *p, size_t len)
{
    bool looked = false; /* once in a piece, or what is skipped would be looked at for every event that is not */
    for (size_t at = 0; at < len;) {
        if (u->line == BH_LINE_START) {
            bool between = u->n_field == 0 && p[at] == '\n';
            line_start(u, p[at++]);
            at += between && !looked ? dull_events(p + at, len - at) : 0;
            looked = looked || between;
            continue;
        }
        const char *end = memchr(p + at, '\n', len - at);
        size_t n = end ? (size_t)(end - p) - at : len - at;
        if (u->line == BH_LINE_DATA)
            json_feed(u, p + at, n);
        at += n;
        if (end) {
            line_end(u);
            at++;
        }
    }
}

void bh_usage_feed(struct bh_usage *u, const char *data, size_t len)
{
    if (u->form == BH_USAGE_EVENTS)
        events_feed(u, data, len);
    else if (u->form == BH_USAGE_JSON)
        json_feed(u, data, len);
}

static int64_t sum(const struct bh_usage *u, bool output)
{
    int64_t most = 0, beside = 0;
    for (size_t i = 0; i < BH_USAGE_COUNTERS; i++) {
        if (places[i].output != output)
            continue;
        if (places[i].adds)
            beside += u->counters[i];
        else if (u->counters[i] > most)
            most = u->counters[i];
    }
    return most + beside;
}

int64_t bh_usage_in(const struct bh_usage *u)
{
    return sum(u, false);
}

int64_t bh_usage_out(const struct bh_usage *u)
{
    return sum(u, true);
}
