/* SPDX-License-Identifier: Apache-2.0 */
/* bulkhead init: a commented pipeline that runs as it is. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "topologies/scalar.h"

static const char starter[] =
    "version: 1\n"
    "name: %s\n"
    "description: Two agents in one box; the writer reads what the researcher declared.\n"
    "\n"
    "params:\n"
    "  topic: {type: string, default: sandboxes}   # bulkhead run pipeline.yaml -p topic=walls\n"
    "\n"
    "# Without a word about topology the crew shares one box, until the document names a reason to split:\n"
    "# `bulkhead plan pipeline.yaml` prints the boxes and why.\n"
    "\n"
    "defaults:\n"
    "  timeout: 10m\n"
    "\n"
    "stages:\n"
    "  - name: gather\n"
    "    agents:\n"
    "      - name: researcher\n"
    "        # A string runs as /bin/sh -ceu. Parameters arrive as variables, never pasted into the shell.\n"
    "        run: |\n"
    "          echo \"looking for $BULKHEAD_PARAM_TOPIC\"\n"
    "          printf 'what: %%s\\nwhere: a box of its own root file system, no network\\n' \"$BULKHEAD_PARAM_TOPIC\" "
    "> "
    "out/facts.txt\n"
    "        outputs: [facts.txt]                  # nothing that is not declared leaves the box\n"
    "  - name: write\n"
    "    agents:\n"
    "      - name: writer\n"
    "        inputs: [facts.txt]                   # read-only, at /workspace/in/facts.txt\n"
    "        run: |\n"
    "          { echo '# Notes'; sed 's/^/- /' in/facts.txt; } > out/notes.md\n"
    "          echo \"wrote $(wc -l < out/notes.md) lines of notes\"\n"
    "        outputs: [notes.md]\n"
    "        keep: always                          # its box stays, for `bulkhead diff` and `bulkhead shell`\n";

/* The folder's name where it can be a pipeline's. */
static char *name_of(const char *dir)
{
    BH_CLEANUP_FREE char *path = realpath(dir, NULL);
    const char *slash = path ? strrchr(path, '/') : NULL;
    return bh_strdup(slash && bh_is_name(slash + 1) ? slash + 1 : "starter");
}

static void say_written(const struct bh_args *args, const char *path)
{
    if (bh_args_json(args)) {
        BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
        bh_val_set_str(v, "file", path);
        bh_cli_print_json(v);
    } else {
        printf("%s\n", path);
    }
    if (!bh_args_has(args, "quiet"))
        fprintf(stderr, "now: bulkhead run %s\n", path);
}

static int write_starter(const struct bh_args *args, const char *dir, struct bh_err **err)
{
    int rc = bh_mkdir_p(dir, 0777, err);
    if (rc != 0)
        return rc;
    BH_CLEANUP_FREE char *path = bh_path_join(dir, "pipeline.yaml");
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) {
        rc = bh_err_set(err, BH_E_EXISTS, 0, "'%s' exists", path);
        bh_err_hint(err, "name another folder: bulkhead init DIR");
        return rc;
    }
    BH_CLEANUP_FREE char *name = name_of(dir);
    BH_CLEANUP_FREE char *text = bh_asprintf(starter, name);
    if (fd < 0 || bh_write_all(fd, text, strlen(text)) != 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot write '%s'", path);
    say_written(args, path);
    return 0;
}

static int init(const struct bh_args *args)
{
    struct bh_err *err = NULL;
    int rc = write_starter(args, args->n_operands > 0 ? args->operands[0] : ".", &err);
    return rc == 0 ? 0 : bh_cli_fail(args, err);
}

const struct bh_cmd bh_cmd_init = {
    .name = "init",
    .operands = "[DIR]",
    .summary = "write a commented starter pipeline that runs as it is",
    .example = "bulkhead init demo && bulkhead run demo/pipeline.yaml",
    .max_operands = 1,
    .run = init,
};
