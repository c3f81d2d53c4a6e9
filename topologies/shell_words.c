/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the reading of words, quotes and separators of a shell text. It knows no grammar beyond that: a `for` is a
 * command named "for", which nobody looks for.
 */
#include "topologies/shell_words.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"

struct scan {
    const char *at;
    struct bh_arena *arena;
    struct bh_shell_commands *out;
    struct bh_shell_command now;
    size_t depth;
    struct bh_buf word;
    bool in_word, literal, over;
    bool names_file; /* the next word is that of a redirection */
};

static bool is_assignment(const char *word)
{
    size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return n > 0 && word[n] == '=';
}

static bool is_keyword(const char *word)
{
    static const char *const words[] = {"if", "then", "elif", "else", "while", "until", "do", "!", "{", "time"};
    for (size_t i = 0; i < BH_ARRAY_LEN(words); i++) {
        if (strcmp(word, words[i]) == 0)
            return true;
    }
    return false;
}

static void end_word(struct scan *s)
{
    if (!s->in_word)
        return;
    bool leads = s->now.n == 0, is_file = s->names_file;
    s->names_file = false;
    bool lead_in = leads && (is_assignment(s->word.data) || (s->literal && is_keyword(s->word.data)));
    if (!is_file && !lead_in)
        *BH_ARENA_PUSH(s->arena, s->now.words, s->now.n, s->now.cap) =
            (struct bh_shell_word){bh_arena_strdup(s->arena, s->word.data), s->literal};
    bh_buf_clear(&s->word);
    s->in_word = false;
    s->literal = true;
}

static void end_command(struct scan *s)
{
    end_word(s);
    s->names_file = false;
    if (s->now.n > 0)
        *BH_ARENA_PUSH(s->arena, s->out->items, s->out->len, s->out->cap) = s->now;
    s->now = (struct bh_shell_command){.depth = s->depth};
}

static void add(struct scan *s, char c)
{
    s->in_word = true;
    bh_buf_addc(&s->word, c);
}

static void read_single(struct scan *s)
{
    s->in_word = true;
    for (s->at++; *s->at && *s->at != '\''; s->at++)
        bh_buf_addc(&s->word, *s->at);
    s->at += *s->at == '\'';
}

static void read_double(struct scan *s)
{
    s->in_word = true;
    for (s->at++; *s->at && *s->at != '"'; s->at++) {
        if (*s->at == '\\' && s->at[1] && strchr("\\\"$`\n", s->at[1])) {
            s->at++;
            if (*s->at == '\n')
                continue;
        } else if (*s->at == '$' || *s->at == '`') {
            s->literal = false;
        }
        bh_buf_addc(&s->word, *s->at);
    }
    s->at += *s->at == '"';
}

/* $(…): what is in it is a command of its own that nobody looks at; without an end the text is over. */
static void read_substitution(struct scan *s)
{
    size_t depth = 0;
    add(s, '$');
    s->literal = false;
    s->at++;
    if (*s->at != '(')
        return;
    for (; *s->at; s->at++) {
        depth += *s->at == '(';
        if (*s->at == ')' && --depth == 0) {
            s->at++;
            return;
        }
    }
    s->over = true;
}

static void read_backslash(struct scan *s)
{
    s->at++;
    if (*s->at == '\n')
        s->at++;
    else if (*s->at)
        add(s, *s->at++);
}

static void read_redirection(struct scan *s)
{
    if (s->at[0] == '<' && s->at[1] == '<') {
        s->over = true;
        return;
    }
    if (s->in_word && s->word.data[strspn(s->word.data, "0123456789")] == '\0') { /* 2>file */
        bh_buf_clear(&s->word);
        s->in_word = false;
    }
    end_word(s);
    s->at += strspn(s->at, "<>&|");
    s->names_file = true;
}

static void read_operator(struct scan *s)
{
    char c = *s->at++;
    end_command(s);
    if (c == '(')
        s->depth++;
    else if (c == ')' && s->depth > 0)
        s->depth--;
    s->now.depth = s->depth;
}

static void step(struct scan *s)
{
    char c = *s->at;
    if (c == '\'') {
        read_single(s);
    } else if (c == '"') {
        read_double(s);
    } else if (c == '\\') {
        read_backslash(s);
    } else if (c == '$') {
        read_substitution(s);
    } else if (c == '<' || c == '>') {
        read_redirection(s);
    } else if (strchr("\n;&|()", c)) {
        read_operator(s);
    } else if (c == ' ' || c == '\t' || c == '\r') {
        end_word(s);
        s->at++;
    } else if (c == '#' && !s->in_word) {
        s->at += strcspn(s->at, "\n");
    } else {
        s->literal = s->literal && !strchr("`*?[", c);
        add(s, c);
        s->at++;
    }
}

void bh_shell_split(const char *text, struct bh_arena *arena, struct bh_shell_commands *ret)
{
    struct scan s = {.at = text, .arena = arena, .out = ret, .word = BH_BUF_INIT, .literal = true};
    while (*s.at && !s.over)
        step(&s);
    end_command(&s);
    bh_buf_fini(&s.word);
}
