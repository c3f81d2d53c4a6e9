/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns how the installers are called: one row per program, one reader per kind of package name. An option whose value
 * is taken for a package does no harm, because it has no version.
 */
#include "topologies/installs.h"

#include <ctype.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "topologies/shell_words.h"

enum { DEPTH_MAX = 8, COMMAND_MAX = 120 };

/* Where the shell stands. A NULL folder is one that is not known. */
struct shell {
    const char *dirs[DEPTH_MAX + 1]; /* per depth of ( ) */
    size_t depth;
    const char *venv; /* activated; NULL: none */
    struct bh_arena *arena;
    struct bh_installs *out;
};

struct call { /* of an installer */
    struct shell *shell;
    const struct bh_shell_word *words;
    size_t n;
    const char *place;   /* NULL: not known */
    const char *version; /* given by an option, for cargo and gem */
    const char *command;
};

/* --- names and paths --- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static const char *dir_of(struct shell *sh)
{
    return sh->dirs[sh->depth < DEPTH_MAX ? sh->depth : DEPTH_MAX];
}

/* A clean absolute path; NULL where it is not known. */
static const char *place_at(struct shell *sh, const struct bh_shell_word *word)
{
    const char *dir = dir_of(sh), *p = word->s;
    if (!word->literal || !*p || *p == '~' || strstr(p, "..") || strstr(p, "{{") || (!dir && *p != '/'))
        return NULL;
    struct bh_buf out = BH_BUF_INIT;
    if (*p != '/')
        bh_buf_adds(&out, dir);
    while (*p) {
        size_t len = strcspn(p, "/");
        if (len > 0 && !(len == 1 && *p == '.')) {
            bh_buf_addc(&out, '/');
            bh_buf_add(&out, p, len);
        }
        p += len + (p[len] == '/');
    }
    const char *path = bh_arena_strdup(sh->arena, out.len > 0 ? out.data : "/");
    bh_buf_fini(&out);
    return path;
}

/* "/opt/venv" of "/opt/venv/bin/pip"; "" of a program that is looked for. */
static const char *prefix_of_program(struct shell *sh, const struct bh_shell_word *program)
{
    const char *bin = strstr(program->s, "/bin/");
    if (!strchr(program->s, '/'))
        return sh->venv ? sh->venv : "";
    if (!bin || strchr(bin + 5, '/'))
        return NULL;
    struct bh_shell_word prefix = {bh_arena_strndup(sh->arena, program->s, (size_t)(bin - program->s)), true};
    return bh_streq(prefix.s, "/usr") || bh_streq(prefix.s, "/usr/local") ? "" : place_at(sh, &prefix);
}

static void add_install(struct call *c, const char *kind, const char *name, struct bh_version version)
{
    if (!c->place || !*name || !version.text || strstr(name, "{{"))
        return;
    *BH_ARENA_PUSH(c->shell->arena, c->shell->out->items, c->shell->out->len, c->shell->out->cap) =
        (struct bh_install){kind, c->place, name, version, c->command};
}

/* "NAME-1.2.3" → both; false where there is no version with a dot in it. */
static bool split_file(struct shell *sh, const char *stem, const char **ret_name, const char **ret_version)
{
    for (const char *dash = strchr(stem, '-'); dash; dash = strchr(dash + 1, '-')) {
        size_t digits = strspn(dash + 1, "0123456789");
        if (dash == stem || digits == 0 || dash[1 + digits] != '.' || !isdigit((unsigned char)dash[2 + digits]))
            continue;
        *ret_name = bh_arena_strndup(sh->arena, stem, (size_t)(dash - stem));
        *ret_version = bh_arena_strdup(sh->arena, dash + 1);
        return true;
    }
    return false;
}

static const char *without_end(struct shell *sh, const char *file, const char *const *ends, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bh_ends_with(file, ends[i]))
            return bh_arena_strndup(sh->arena, base_name(file), strlen(base_name(file)) - strlen(ends[i]));
    }
    return NULL;
}

/* --- npm, yarn, pnpm --- */

static void npm_package(struct call *c, const char *word)
{
    static const char *const ends[] = {".tgz", ".tar.gz"};
    const char *name, *version, *stem = without_end(c->shell, word, ends, BH_ARRAY_LEN(ends));
    if (stem && split_file(c->shell, stem, &name, &version)) {
        add_install(c, "npm", name, bh_version_exact(version));
        return;
    }
    const char *at = strrchr(word, '@');
    if (!stem && at && at > word && !strchr(at, '/') && !strchr(at, ':'))
        add_install(c, "npm", bh_arena_strndup(c->shell->arena, word, (size_t)(at - word)),
                    bh_version_npm(bh_arena_strdup(c->shell->arena, at + 1)));
}

/* --- pip --- */

static const char *pip_name(struct call *c, const char *name, size_t len)
{
    char *out = bh_arena_strndup(c->shell->arena, name, len), *to = out;
    for (const char *p = out; *p && *p != '['; p++) {
        bool sign = strchr("-_.", *p) != NULL;
        if (!sign || (to > out && to[-1] != '-'))
            *to++ = sign ? '-' : (char)tolower((unsigned char)*p);
    }
    *to = '\0';
    return out;
}

static void pip_file(struct call *c, const char *stem, bool wheel)
{
    const char *name, *version;
    if (!split_file(c->shell, stem, &name, &version))
        return;
    size_t len = wheel ? strcspn(version, "-") : strlen(version); /* behind it stand the tags */
    add_install(c, "pip", pip_name(c, name, strlen(name)),
                bh_version_exact(bh_arena_strndup(c->shell->arena, version, len)));
}

static void pip_package(struct call *c, const char *word)
{
    static const char *const wheel[] = {".whl"}, *const source[] = {".tar.gz", ".zip"};
    const char *stem = without_end(c->shell, word, wheel, 1);
    if (stem) {
        pip_file(c, stem, true);
        return;
    }
    stem = without_end(c->shell, word, source, 2);
    if (stem) {
        pip_file(c, stem, false);
        return;
    }
    size_t len = strcspn(word, "=~<>!@;,/ ");
    const char *op = bh_starts_with(word + len, "===")  ? "==="
                     : bh_starts_with(word + len, "==") ? "=="
                     : bh_starts_with(word + len, "~=") ? "~="
                                                        : NULL;
    if (!op || strchr(word, ','))
        return;
    const char *rest = word + len + strlen(op);
    rest += strspn(rest, " ");
    add_install(c, "pip", pip_name(c, word, len),
                bh_version_pip(op, bh_arena_strndup(c->shell->arena, rest, strcspn(rest, " ;"))));
}

/* --- apt, dpkg, cargo, gem --- */

static void apt_package(struct call *c, const char *word)
{
    const char *file = base_name(word), *under = strchr(file, '_'), *equals = strchr(word, '=');
    if (bh_ends_with(file, ".deb") && under) {
        size_t len = strcspn(under + 1, "_");
        add_install(c, "apt", bh_arena_strndup(c->shell->arena, file, (size_t)(under - file)),
                    bh_version_opaque(bh_arena_strndup(c->shell->arena, under + 1, len)));
    } else if (equals && equals > word) {
        add_install(c, "apt", bh_arena_strndup(c->shell->arena, word, strcspn(word, "=:")),
                    bh_version_opaque(bh_arena_strdup(c->shell->arena, equals + 1)));
    }
}

static void cargo_package(struct call *c, const char *word)
{
    const char *at = strchr(word, '@'), *version = at ? at + 1 : c->version;
    if (version)
        add_install(c, "cargo", bh_arena_strndup(c->shell->arena, word, strcspn(word, "@")),
                    bh_version_exact(bh_arena_strdup(c->shell->arena, version)));
}

static void gem_package(struct call *c, const char *word)
{
    static const char *const ends[] = {".gem"};
    const char *name, *version, *stem = without_end(c->shell, word, ends, 1);
    if (stem) {
        if (split_file(c->shell, stem, &name, &version))
            add_install(c, "gem", name, bh_version_exact(version));
        return;
    }
    const char *colon = strchr(word, ':');
    version = colon ? colon + 1 : c->version;
    if (version)
        add_install(c, "gem", bh_arena_strndup(c->shell->arena, word, strcspn(word, ":")),
                    bh_version_exact(bh_arena_strdup(c->shell->arena, version)));
}

/* --- calls --- */

struct installer {
    const char *programs[4], *verbs[3];
    void (*package)(struct call *c, const char *word);
    const char *places[5];   /* options that say where */
    const char *versions[3]; /* options that say which version */
    const char *skipped[6];  /* options whose value names no package, though it may look like one */
    const char *global[2];   /* flags by which it goes to a place that all share */
    bool in_folder;          /* else at the program's own place */
};

static const struct installer installers[] = {
    {{"npm"}, {"install", "i", "add"}, npm_package, {"--prefix", "-C"}, {0}, {0}, {"-g", "--global"}, true},
    {{"pnpm", "yarn"}, {"add"}, npm_package, {"-C", "--dir", "--cwd"}, {0}, {0}, {"-g", "--global"}, true},
    {{"pip", "pip3"},
     {"install"},
     pip_package,
     {"-t", "--target", "--prefix", "--root"},
     {0},
     {"-r", "--requirement", "-c", "--constraint", "-e", "--editable"},
     {"--user"},
     false},
    {{"apt-get", "apt", "aptitude"}, {"install"}, apt_package, {0}, {0}, {"-o", "-t", "-c"}, {0}, false},
    {{"dpkg"}, {"-i", "--install"}, apt_package, {"--root"}, {0}, {0}, {0}, false},
    {{"cargo"},
     {"install"},
     cargo_package,
     {"--root"},
     {"--version", "--vers"},
     {"--path", "--git", "--features", "--bin", "--profile", "--target"},
     {0},
     false},
    {{"gem"}, {"install"}, gem_package, {"-i", "--install-dir"}, {"-v", "--version"}, {"--source"}, {"--user"}, false},
};

static bool is_one_of(const char *word, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n && words[i]; i++) {
        if (strcmp(word, words[i]) == 0)
            return true;
    }
    return false;
}

/* "pip3.11" is pip. */
static const struct installer *find_installer(const char *program)
{
    const char *name = base_name(program);
    for (size_t i = 0; i < BH_ARRAY_LEN(installers); i++) {
        if (is_one_of(name, installers[i].programs, BH_ARRAY_LEN(installers[i].programs)))
            return &installers[i];
        if (installers[i].package == pip_package && bh_starts_with(name, "pip3.") && isdigit((unsigned char)name[5]))
            return &installers[i];
    }
    return NULL;
}

/* The value of the option at words[i] where it is one of `names`: behind '=', or the next word, which is then passed
 * over. */
static const struct bh_shell_word *option_value(const struct call *c, size_t *i, const char *const *names, size_t n,
                                                struct bh_shell_word *scratch)
{
    const char *word = c->words[*i].s, *equals = strchr(word, '=');
    for (size_t k = 0; k < n && names[k]; k++) {
        size_t len = strlen(names[k]);
        if (equals && (size_t)(equals - word) == len && strncmp(word, names[k], len) == 0) {
            *scratch = (struct bh_shell_word){equals + 1, c->words[*i].literal};
            return scratch;
        }
        if (strcmp(word, names[k]) == 0 && *i + 1 < c->n)
            return &c->words[++*i];
    }
    return NULL;
}

/* True where words[i] was an option. */
static bool read_option(struct call *c, const struct installer *how, size_t *i)
{
    struct bh_shell_word scratch;
    const struct bh_shell_word *value = option_value(c, i, how->places, BH_ARRAY_LEN(how->places), &scratch);
    if (value) {
        c->place = place_at(c->shell, value);
        return true;
    }
    value = option_value(c, i, how->versions, BH_ARRAY_LEN(how->versions), &scratch);
    if (value) {
        c->version = value->literal ? value->s : NULL;
        return true;
    }
    if (option_value(c, i, how->skipped, BH_ARRAY_LEN(how->skipped), &scratch))
        return true;
    if (is_one_of(c->words[*i].s, how->global, BH_ARRAY_LEN(how->global)))
        c->place = "global";
    return c->words[*i].s[0] == '-' && !is_one_of(c->words[*i].s, how->verbs, BH_ARRAY_LEN(how->verbs));
}

static const char *command_text(const struct call *c)
{
    struct bh_buf text = BH_BUF_INIT;
    for (size_t i = 0; i < c->n; i++)
        bh_buf_addf(&text, "%s%s", i > 0 ? " " : "", c->words[i].s);
    const char *s = text.len <= COMMAND_MAX ? bh_arena_strdup(c->shell->arena, text.data)
                                            : bh_arena_printf(c->shell->arena, "%.*s...", COMMAND_MAX, text.data);
    bh_buf_fini(&text);
    return s;
}

/* Options first, wherever they stand: they say where and which version; then the packages. */
static void read_call(struct shell *sh, const struct installer *how, const struct bh_shell_word *words, size_t n)
{
    struct call c = {.shell = sh, .words = words, .n = n};
    BH_CLEANUP_FREE size_t *packages = bh_calloc(n, sizeof(*packages));
    size_t n_packages = 0;
    bool verb = false;
    c.place = how->in_folder ? dir_of(sh) : how->package == pip_package ? prefix_of_program(sh, &words[0]) : "";
    c.command = command_text(&c);
    for (size_t i = 1; i < n; i++) {
        if (read_option(&c, how, &i) || !words[i].literal)
            continue;
        if (!verb && !is_one_of(words[i].s, how->verbs, BH_ARRAY_LEN(how->verbs)))
            return;
        if (verb)
            packages[n_packages++] = i;
        verb = true;
    }
    for (size_t i = 0; i < n_packages; i++)
        how->package(&c, words[packages[i]].s);
}

/* `python3 -m pip install …` is pip of that python. */
static bool read_python(struct shell *sh, const struct bh_shell_command *cmd, size_t from)
{
    const struct bh_shell_word *words = cmd->words + from;
    size_t n = cmd->n - from;
    if (n < 3 || !bh_starts_with(base_name(words[0].s), "python") || strcmp(words[1].s, "-m") != 0 ||
        strcmp(words[2].s, "pip") != 0)
        return false;
    BH_CLEANUP_FREE struct bh_shell_word *call = bh_calloc(n - 2, sizeof(*call));
    memcpy(call + 1, words + 3, (n - 3) * sizeof(*call));
    const char *slash = strrchr(words[0].s, '/');
    call[0] = (struct bh_shell_word){
        slash ? bh_arena_printf(sh->arena, "%.*s/pip", (int)(slash - words[0].s), words[0].s) : "pip", true};
    read_call(sh, find_installer("pip"), call, n - 2);
    return true;
}

/* `. /opt/venv/bin/activate`, and `cd`. */
static void read_move(struct shell *sh, const struct bh_shell_word *words, size_t n)
{
    static const char activate[] = "/bin/activate";
    if (n == 2 && strcmp(words[0].s, "cd") == 0) {
        sh->dirs[sh->depth < DEPTH_MAX ? sh->depth : DEPTH_MAX] = place_at(sh, &words[1]);
    } else if (n >= 2 && (strcmp(words[0].s, ".") == 0 || strcmp(words[0].s, "source") == 0) &&
               bh_ends_with(words[1].s, activate)) {
        struct bh_shell_word venv = {bh_arena_strndup(sh->arena, words[1].s, strlen(words[1].s) - strlen(activate)),
                                     words[1].literal};
        sh->venv = place_at(sh, &venv);
    }
}

static void read_command(struct shell *sh, const struct bh_shell_command *cmd)
{
    static const char *const wrappers[] = {"sudo", "env", "exec", "command", "nice", "eatmydata"};
    size_t depth = cmd->depth < DEPTH_MAX ? cmd->depth : DEPTH_MAX, from = 0;
    while (sh->depth < depth) {
        sh->dirs[sh->depth + 1] = sh->dirs[sh->depth];
        sh->depth++;
    }
    sh->depth = depth;
    while (from < cmd->n && (is_one_of(cmd->words[from].s, wrappers, BH_ARRAY_LEN(wrappers)) ||
                             (from > 0 && (strchr(cmd->words[from].s, '=') || cmd->words[from].s[0] == '-'))))
        from++;
    if (from == cmd->n || !cmd->words[from].literal)
        return;
    const struct installer *how = find_installer(cmd->words[from].s);
    if (how)
        read_call(sh, how, cmd->words + from, cmd->n - from);
    else if (!read_python(sh, cmd, from))
        read_move(sh, cmd->words + from, cmd->n - from);
}

static bool is_shell(const char *program)
{
    static const char *const shells[] = {"sh", "bash", "dash", "ash", "zsh"};
    return is_one_of(base_name(program), shells, BH_ARRAY_LEN(shells));
}

void bh_installs_of(const char *const *argv, size_t n, const char *workdir, struct bh_arena *arena,
                    struct bh_installs *ret)
{
    struct shell sh = {.dirs = {workdir}, .arena = arena, .out = ret};
    struct bh_shell_commands commands = {0};
    if (n == 3 && is_shell(argv[0]) && argv[1][0] == '-' && strchr(argv[1], 'c')) {
        bh_shell_split(argv[2], arena, &commands);
        for (size_t i = 0; i < commands.len; i++)
            read_command(&sh, &commands.items[i]);
        return;
    }
    struct bh_shell_command one = {.n = n};
    one.words = bh_arena_alloc(arena, (n + 1) * sizeof(*one.words));
    for (size_t i = 0; i < n; i++)
        one.words[i] = (struct bh_shell_word){argv[i], !strstr(argv[i], "{{")};
    if (n > 0)
        read_command(&sh, &one);
}

bool bh_installs_conflict(const struct bh_install *a, const struct bh_install *b)
{
    return bh_streq(a->kind, b->kind) && bh_streq(a->place, b->place) && bh_streq(a->name, b->name) &&
           bh_versions_conflict(&a->version, &b->version);
}
