/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of logs as text and as JSON. What agents wrote is escaped in text; JSON carries every byte. */
#include "cli/log_print.h"

#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "cli/common.h"

struct bh_log_printer {
    bool json, with_prefix, colour;
    char today[BH_WALL_TEXT]; /* the date is said of lines of other days only */
    struct bh_buf out;
    struct bh_buf prefix; /* of the last line: the lines of a block have it in common */
    const struct bh_log_tags *tags;
    struct bh_wall time;
    enum bh_stream stream;
    bool gap;
};

struct bh_log_printer *bh_log_printer_new(bool json, bool prefix)
{
    struct bh_log_printer *p = bh_alloc(sizeof(*p));
    p->json = json;
    p->with_prefix = prefix;
    p->colour = bh_cli_colour(STDOUT_FILENO);
    bh_wall_format(bh_wall_now(), p->today);
    bh_buf_init(&p->out);
    bh_buf_init(&p->prefix);
    return p;
}

void bh_log_printer_free(struct bh_log_printer *p)
{
    if (!p)
        return;
    bh_buf_fini(&p->out);
    bh_buf_fini(&p->prefix);
    bh_free(p);
}

/* --- JSON --- */

static void base64(char *out, const char *text, size_t len)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t a = (unsigned char)text[i], b = left > 1 ? (unsigned char)text[i + 1] : 0,
                 c = left > 2 ? (unsigned char)text[i + 2] : 0, n = a << 16 | b << 8 | c;
        *out++ = alphabet[n >> 18];
        *out++ = alphabet[n >> 12 & 63];
        *out++ = left > 1 ? alphabet[n >> 6 & 63] : '=';
        *out++ = left > 2 ? alphabet[n & 63] : '=';
    }
}

static void add_value(struct bh_buf *out, const struct bh_log_line *line)
{
    if (bh_utf8_check(line->text, line->len) == line->len) {
        BH_CLEANUP_VAL struct bh_val *text = bh_val_strn(line->text, line->len);
        bh_json_format(text, out);
        return;
    }
    size_t len = (line->len + 2) / 3 * 4;
    bh_buf_addc(out, '"');
    base64(bh_buf_reserve(out, len), line->text, line->len);
    out->len += len;
    bh_buf_adds(out, "\",\"base64\":true");
}

/* All members that the lines of a block have in common, without the closing brace. */
static void make_members(struct bh_log_printer *p, const struct bh_log_tags *tags, const struct bh_log_line *line)
{
    BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
    bh_cli_set_time(v, "time", line->time);
    bh_val_set_str(v, "run", tags->run);
    bh_val_set_str(v, "stage", *tags->stage ? tags->stage : NULL);
    bh_val_set_str(v, "agent", tags->agent);
    bh_val_set_int(v, "attempt", tags->attempt);
    bh_val_set_int(v, "try", tags->try_);
    bh_val_set_str(v, "instance", tags->instance);
    bh_val_set_str(v, "box", tags->box);
    bh_val_set_bool(v, "tainted", tags->tainted);
    bh_val_set_str(v, "stream", line->gap ? NULL : bh_stream_text(line->stream));
    bh_json_format(v, &p->prefix);
    p->prefix.data[--p->prefix.len] = '\0';
}

static void add_json(struct bh_log_printer *p, const struct bh_log_line *line)
{
    bh_buf_addf(&p->out, ",\"seq\":%llu,\"text\":", (unsigned long long)line->seq);
    if (line->gap)
        bh_buf_addf(&p->out, "null,\"gap\":true,\"dropped_bytes\":%llu,\"dropped_lines\":%llu",
                    (unsigned long long)line->missing_bytes, (unsigned long long)line->missing_lines);
    else
        add_value(&p->out, line);
    bh_buf_adds(&p->out, line->gap || line->eol ? "}" : ",\"eol\":false}");
}

/* --- text --- */

enum { DATE = sizeof("2026-01-31") - 1, CLOCK = sizeof("12:00:00.000") - 1 };

/* "model", of a later try "model/2", of a later attempt "model/2.1", of what attempts start from "model/0.1" */
static void add_name(struct bh_buf *out, const struct bh_log_tags *tags)
{
    bh_buf_adds(out, tags->agent);
    if (tags->attempt != 1)
        bh_buf_addf(out, "/%lld.%lld", (long long)tags->attempt, (long long)tags->try_);
    else if (tags->try_ > 1)
        bh_buf_addf(out, "/%lld", (long long)tags->try_);
}

/* ':' standard output, '!' standard error, '~' what is no agent's line */
static void make_prefix(struct bh_log_printer *p, const struct bh_log_tags *tags, const struct bh_log_line *line)
{
    char time[BH_WALL_TEXT];
    bool err = line->stream == BH_STREAM_STDERR;
    const char *colour = line->gap ? "\x1b[33m" : err ? "\x1b[31m" : "\x1b[36m";
    bh_wall_format(line->time, time);
    if (strncmp(time, p->today, DATE) != 0)
        bh_buf_addf(&p->prefix, "%.*s ", DATE, time);
    bh_buf_addf(&p->prefix, "%.*s %s", CLOCK, time + DATE + 1, p->colour ? colour : "");
    add_name(&p->prefix, tags);
    bh_buf_addf(&p->prefix, "%s%s ", line->gap ? "~" : err ? "!" : ":", p->colour ? "\x1b[0m" : "");
}

static void print_bare_gap(const struct bh_log_tags *tags, const struct bh_log_line *line)
{
    BH_CLEANUP_FREE char *text = bh_log_gap_text(line);
    BH_CLEANUP_BUF struct bh_buf name = BH_BUF_INIT;
    add_name(&name, tags);
    (void)fflush(stdout);
    (void)fprintf(stderr, "bulkhead: %s: %s\n", name.data, text);
}

static void add_text(struct bh_log_printer *p, const struct bh_log_line *line)
{
    BH_CLEANUP_FREE char *gap = line->gap ? bh_log_gap_text(line) : NULL;
    if (gap)
        bh_buf_adds(&p->out, gap);
    else
        bh_escape_terminal(&p->out, line->text, line->len);
}

/* --- both --- */

static void add_prefix(struct bh_log_printer *p, const struct bh_log_tags *tags, const struct bh_log_line *line)
{
    if (p->tags != tags || p->time.us != line->time.us || p->stream != line->stream || p->gap != line->gap) {
        bh_buf_clear(&p->prefix);
        (p->json ? make_members : make_prefix)(p, tags, line);
        p->tags = tags;
        p->time = line->time;
        p->stream = line->stream;
        p->gap = line->gap;
    }
    bh_buf_add(&p->out, p->prefix.data, p->prefix.len);
}

void bh_log_print(struct bh_log_printer *p, const struct bh_log_tags *tags, const struct bh_log_line *line)
{
    if (line->gap && !p->json && !p->with_prefix) {
        print_bare_gap(tags, line);
        return;
    }
    bh_buf_clear(&p->out);
    if (p->json || p->with_prefix)
        add_prefix(p, tags, line);
    (p->json ? add_json : add_text)(p, line);
    bh_buf_addc(&p->out, '\n');
    (void)fwrite(p->out.data, 1, p->out.len, stdout);
}
