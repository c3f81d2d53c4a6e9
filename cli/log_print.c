/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of logs as text and as JSON. What agents wrote is escaped in text; JSON carries every byte. */
#include "cli/log_print.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "cli/common.h"

static void set_text(struct bh_val *v, const struct bh_log_line *line)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (bh_utf8_check(line->text, line->len) == line->len) {
        bh_val_set(v, "text", bh_val_strn(line->text, line->len));
        return;
    }
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    for (size_t i = 0; i < line->len; i += 3) {
        size_t left = line->len - i;
        uint32_t a = (unsigned char)line->text[i], b = left > 1 ? (unsigned char)line->text[i + 1] : 0,
                 c = left > 2 ? (unsigned char)line->text[i + 2] : 0, n = a << 16 | b << 8 | c;
        bh_buf_addc(&out, alphabet[n >> 18]);
        bh_buf_addc(&out, alphabet[n >> 12 & 63]);
        bh_buf_addc(&out, left > 1 ? alphabet[n >> 6 & 63] : '=');
        bh_buf_addc(&out, left > 2 ? alphabet[n & 63] : '=');
    }
    bh_val_set_str(v, "text", out.data);
    bh_val_set_bool(v, "base64", true);
}

static void set_gap(struct bh_val *v, const struct bh_log_line *line)
{
    bh_val_set_str(v, "text", NULL);
    bh_val_set_bool(v, "gap", true);
    bh_val_set_int(v, "dropped_bytes", (int64_t)line->missing_bytes);
    bh_val_set_int(v, "dropped_lines", (int64_t)line->missing_lines);
}

static void print_json(const struct bh_log_tags *tags, const struct bh_log_line *line)
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
    bh_val_set_str(v, "stream", line->gap ? NULL : bh_stream_text(line->stream));
    bh_val_set_int(v, "seq", (int64_t)line->seq);
    if (line->gap)
        set_gap(v, line);
    else
        set_text(v, line);
    if (!line->gap && !line->eol)
        bh_val_set_bool(v, "eol", false);
    bh_cli_print_json(v);
}

enum { DATE = sizeof("2026-01-31") - 1, CLOCK = sizeof("12:00:00.000") - 1 };

/* "model", of a later try "model/2", of a later attempt "model/2.1" */
static void add_name(struct bh_buf *out, const struct bh_log_tags *tags)
{
    bh_buf_adds(out, tags->agent);
    if (tags->attempt > 1)
        bh_buf_addf(out, "/%lld.%lld", (long long)tags->attempt, (long long)tags->try_);
    else if (tags->try_ > 1)
        bh_buf_addf(out, "/%lld", (long long)tags->try_);
}

/* ':' standard output, '!' standard error, '~' what is no agent's line */
static void add_prefix(const struct bh_log_style *style, const struct bh_log_tags *tags, const struct bh_log_line *line,
                       struct bh_buf *out)
{
    char time[BH_WALL_TEXT];
    bool err = line->stream == BH_STREAM_STDERR;
    const char *colour = line->gap ? "\x1b[33m" : err ? "\x1b[31m" : "\x1b[36m";
    bh_wall_format(line->time, time);
    if (strncmp(time, style->today, DATE) != 0)
        bh_buf_addf(out, "%.*s ", DATE, time);
    bh_buf_addf(out, "%.*s %s", CLOCK, time + DATE + 1, style->colour ? colour : "");
    add_name(out, tags);
    bh_buf_addf(out, "%s%s ", line->gap ? "~" : err ? "!" : ":", style->colour ? "\x1b[0m" : "");
}

static void print_bare_gap(const struct bh_log_tags *tags, const struct bh_log_line *line)
{
    BH_CLEANUP_FREE char *text = bh_log_gap_text(line);
    BH_CLEANUP_BUF struct bh_buf name = BH_BUF_INIT;
    add_name(&name, tags);
    (void)fflush(stdout);
    (void)fprintf(stderr, "bulkhead: %s: %s\n", name.data, text);
}

static void print_text(const struct bh_log_style *style, const struct bh_log_tags *tags, const struct bh_log_line *line)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    BH_CLEANUP_FREE char *gap = line->gap ? bh_log_gap_text(line) : NULL;
    if (style->prefix)
        add_prefix(style, tags, line, &out);
    if (gap)
        bh_buf_adds(&out, gap);
    else
        bh_escape_terminal(&out, line->text, line->len);
    puts(out.data);
}

void bh_log_print(const struct bh_log_style *style, const struct bh_log_tags *tags, const struct bh_log_line *line)
{
    if (style->json)
        print_json(tags, line);
    else if (line->gap && !style->prefix)
        print_bare_gap(tags, line);
    else
        print_text(style, tags, line);
}
