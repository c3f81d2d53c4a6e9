/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a log file (log_format_priv.h). Pure: no file is touched here. */
#include "workers/logs/log_format_priv.h"

#include "base/buf.h"
#include "base/mem.h"

/* Names in a document have at most 63 characters: five tags of this length stay below BH_LOG_MAX_TAGS. */
#define MAX_TAG 4096

const char *bh_stream_text(enum bh_stream s)
{
    return s == BH_STREAM_STDERR ? "stderr" : "stdout";
}

char *bh_log_gap_text(const struct bh_log_line *gap)
{
    return bh_asprintf("%llu byte%s of output (%llu line%s) %s missing here", (unsigned long long)gap->missing_bytes,
                       gap->missing_bytes == 1 ? "" : "s", (unsigned long long)gap->missing_lines,
                       gap->missing_lines == 1 ? "" : "s", gap->missing_bytes == 1 ? "is" : "are");
}

static void put_le(struct bh_buf *out, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        bh_buf_addc(out, (char)(unsigned char)(v >> (8 * i)));
}

static uint64_t get_le(const char *data, unsigned bytes)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++)
        v |= (uint64_t)(unsigned char)data[i] << (8 * i);
    return v;
}

static void put_text(struct bh_buf *out, const char *text)
{
    size_t len = text ? strlen(text) : 0;
    if (len > MAX_TAG)
        len = MAX_TAG;
    put_le(out, len, 2);
    bh_buf_add(out, text ? text : "", len);
}

static bool get_text(const char **at, const char *end, const char **ret)
{
    if (end - *at < 2)
        return false;
    size_t len = get_le(*at, 2);
    *at += 2;
    if ((size_t)(end - *at) < len)
        return false;
    *ret = bh_strndup(*at, len);
    *at += len;
    return true;
}

void bh_log_head_encode(struct bh_buf *out, const struct bh_log_tags *tags)
{
    BH_CLEANUP_BUF struct bh_buf body = BH_BUF_INIT;
    put_le(&body, (uint64_t)tags->attempt, 8);
    put_le(&body, (uint64_t)tags->try_, 8);
    put_text(&body, tags->run);
    put_text(&body, tags->stage);
    put_text(&body, tags->agent);
    put_text(&body, tags->instance);
    put_text(&body, tags->box);
    put_le(&body, tags->tainted ? 1 : 0, 1); /* logs of before have no such byte */
    bh_buf_add(out, BH_LOG_MAGIC, BH_LOG_MAGIC_LEN);
    put_le(out, body.len, 4);
    bh_buf_add(out, body.data, body.len);
}

bool bh_log_head_decode(const char *data, uint32_t *ret_len)
{
    uint64_t len = get_le(data + BH_LOG_MAGIC_LEN, 4);
    if (memcmp(data, BH_LOG_MAGIC, BH_LOG_MAGIC_LEN) != 0 || len > BH_LOG_MAX_TAGS)
        return false;
    *ret_len = (uint32_t)len;
    return true;
}

bool bh_log_tags_decode(const char *data, size_t len, struct bh_log_tags *ret)
{
    struct bh_log_tags tags = {0};
    const char *at = data, *end = data + len;
    bool good = len >= 16;
    if (good) {
        tags.attempt = (int64_t)get_le(at, 8);
        tags.try_ = (int64_t)get_le(at + 8, 8);
        at += 16;
        good = get_text(&at, end, &tags.run) && get_text(&at, end, &tags.stage) && get_text(&at, end, &tags.agent) &&
               get_text(&at, end, &tags.instance) && get_text(&at, end, &tags.box);
        tags.tainted = good && at < end && *at != 0;
    }
    if (!good) {
        bh_log_tags_fini(&tags);
        return false;
    }
    *ret = tags;
    return true;
}

void bh_log_tags_fini(struct bh_log_tags *tags)
{
    const char *texts[] = {tags->run, tags->stage, tags->agent, tags->instance, tags->box};
    for (size_t i = 0; i < BH_ARRAY_LEN(texts); i++)
        bh_free((void *)(uintptr_t)texts[i]);
    *tags = (struct bh_log_tags){0};
}

static void set_le(char *out, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        out[i] = (char)(unsigned char)(v >> (8 * i));
}

void bh_log_block_encode(char out[static BH_LOG_BLOCK_LEN], const struct bh_log_block *block)
{
    unsigned flags = (block->stream == BH_STREAM_STDERR ? BH_LOG_FLAG_STDERR : 0) | (block->end ? BH_LOG_FLAG_END : 0);
    set_le(out, BH_LOG_MARK, 1);
    set_le(out + 1, flags, 1);
    set_le(out + 2, 0, 2);
    set_le(out + 4, block->len, 4);
    set_le(out + 8, (uint64_t)block->time.us, 8);
    set_le(out + 16, block->seq, 8);
    set_le(out + 24, block->pos, 8);
}

bool bh_log_block_decode(const char *data, struct bh_log_block *ret)
{
    unsigned flags = (unsigned)get_le(data + 1, 1);
    uint64_t len = get_le(data + 4, 4);
    bool end = (flags & BH_LOG_FLAG_END) != 0;
    if (get_le(data, 1) != BH_LOG_MARK || (flags & ~(BH_LOG_FLAG_STDERR | BH_LOG_FLAG_END)) ||
        get_le(data + 2, 2) != 0 || len > BH_LOG_MAX_LINE || end != (len == 0))
        return false;
    *ret = (struct bh_log_block){
        .time = {.us = (int64_t)get_le(data + 8, 8)},
        .stream = (flags & BH_LOG_FLAG_STDERR) ? BH_STREAM_STDERR : BH_STREAM_STDOUT,
        .end = end,
        .seq = get_le(data + 16, 8),
        .pos = get_le(data + 24, 8),
        .len = (size_t)len,
    };
    return true;
}

char *bh_log_segment_path(const char *path, uint64_t number)
{
    return number == 0 ? bh_strdup(path) : bh_asprintf("%s.%llu", path, (unsigned long long)number);
}

uint64_t bh_log_segment_number(const char *name, const char *base)
{
    size_t len = strlen(base);
    uint64_t n = 0;
    if (strncmp(name, base, len) != 0 || name[len] != '.' || name[len + 1] < '1' || name[len + 1] > '9')
        return 0;
    for (const char *p = name + len + 1; *p; p++) {
        if (*p < '0' || *p > '9' || n > UINT64_MAX / 10 - 1)
            return 0;
        n = n * 10 + (uint64_t)(*p - '0');
    }
    return n;
}
