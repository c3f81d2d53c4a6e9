/* SPDX-License-Identifier: Apache-2.0 */
/* Agents that are wrong: commands and what they may hold, inputs and outputs, files, times, references. */
#include "base/buf.h"
#include "tests/unit/topologies/load_support.h"

/* One agent in flow style whose `run` is given, at 3:24. */
#define RUN(text) HEAD "agents: [{name: a, run: " text "}]\n"

static void test_agent(void **state)
{
    static const struct t_bad rows[] = {
        {HEAD "agents: [{run: b}]\n", 3, 10, "agents[0].name", BH_E_MISSING_KEY, "an agent needs 'name'", 0},
        {HEAD "agents: [{name: a}]\n", 3, 10, "agents[0].run", BH_E_MISSING_KEY, "an agent needs 'run' or 'brain'", 0},
        {HEAD "agents: [{name: a, run: b, brain: c}]\n", 3, 28, "agents[0].brain", BH_E_INVALID,
         "'run' or 'brain', not both", 0},
        {HEAD "agents: [{name: A, run: b}]\n", 3, 17, "agents[0].name", BH_E_BAD_NAME, "'A' is not a name", 0},
        {HEAD "agents: [{name: a b, run: b}]\n", 3, 17, "agents[0].name", BH_E_BAD_NAME, "'a b' is not a name", 0},
        {HEAD "agents: [{name: 'a{{params.x}}', run: b}]\n", 3, 17, "agents[0].name", BH_E_BAD_VALUE,
         "is not expanded here", 0},
        {AGENT "  output: [x]\n", 6, 3, "agents[0].output", BH_E_UNKNOWN_KEY, "did you mean 'outputs'?", 0},
        {AGENT "  comand: x\n", 6, 3, "agents[0].comand", BH_E_UNKNOWN_KEY, "the keys of an agent are name, run", 0},
        {AGENT "  ask: x\n", 6, 3, "agents[0].ask", BH_E_NOT_SUPPORTED, "'ask' is reserved for a later version", 0},
        {AGENT "  use: x\n", 6, 3, "agents[0].use", BH_E_NOT_SUPPORTED, "reserved", 0},
        {AGENT "  services: x\n", 6, 3, "agents[0].services", BH_E_NOT_SUPPORTED, "reserved", 0},
        {AGENT "  topology: one\n", 6, 13, "agents[0].topology", BH_E_BAD_VALUE,
         "expected auto, shared-box or per-agent", 0},
        {AGENT "  keep: on_failure\n", 6, 9, "agents[0].keep", BH_E_BAD_VALUE, "did you mean 'on-failure'?", 0},
        {AGENT "  on_failure: ignore\n", 6, 15, "agents[0].on_failure", BH_E_BAD_VALUE,
         "expected fail or continue, found 'ignore'", 0},
        {AGENT "  user: me\n", 6, 9, "agents[0].user", BH_E_BAD_VALUE, "expected agent or root, found 'me'", 0},
        {AGENT "  user: [root]\n", 6, 9, "agents[0].user", BH_E_WRONG_TYPE, "expected agent or root, found a list", 0},
        {AGENT "  workdir: ../x\n", 6, 12, "agents[0].workdir", BH_E_BAD_VALUE, "has '..' in it", 0},
        {AGENT "  workdir: ''\n", 6, 12, "agents[0].workdir", BH_E_BAD_VALUE, "expected a path, found an empty text",
         0},
        {AGENT "  workdir: x{{item}}\n", 6, 12, "agents[0].workdir", BH_E_BAD_VALUE, "is not expanded here", 0},
        {AGENT "  labels: [a]\n", 6, 11, "agents[0].labels", BH_E_WRONG_TYPE,
         "expected a map of label to text, found a list", 0},
        {AGENT "  labels: {a: [b]}\n", 6, 15, "agents[0].labels.a", BH_E_WRONG_TYPE, "expected a text, found a list",
         0},
        {AGENT "  labels: {a: '{{item}}'}\n", 6, 15, "agents[0].labels.a", BH_E_BAD_VALUE, "is not expanded here", 0},
        {AGENT "  labels: {'': b}\n", 6, 12, "agents[0].labels[\"\"]", BH_E_BAD_NAME, "a label without a name", 0},
        {AGENT "  base: host2\n", 6, 9, "agents[0].base", BH_E_BAD_VALUE, "expected host, dir:PATH", 0},
        {AGENT "  base: 'dir:{{url}}'\n", 6, 9, "agents[0].base", BH_E_UNDEFINED, "'{{url}}' stands for nothing here",
         0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_commands(void **state)
{
    static const struct t_bad rows[] = {
        {RUN("''"), 3, 25, "agents[0].run", BH_E_BAD_VALUE, "found an empty text", 0},
        {RUN("[]"), 3, 25, "agents[0].run", BH_E_BAD_VALUE, "expected a command, found an empty list", 0},
        {RUN("{a: b}"), 3, 25, "agents[0].run", BH_E_WRONG_TYPE,
         "expected a command as a string or a list of strings, found a map", 0},
        {RUN("[a, [b]]"), 3, 29, "agents[0].run[1]", BH_E_WRONG_TYPE, "expected an argument as a text, found a list",
         0},
        {RUN("[a, {b: c}]"), 3, 29, "agents[0].run[1]", BH_E_WRONG_TYPE, "found a map", 0},
        {RUN("['', b]"), 3, 26, "agents[0].run[0]", BH_E_BAD_VALUE, "expected a program, found an empty text", 0},
        {AGENT "  setup: [a,\n    b, [c]]\n", 7, 8, "agents[0].setup[2]", BH_E_WRONG_TYPE, "found a list", 0},
        {AGENT "  setup:\n  prompt: x\n", 6, 8, "agents[0].setup", BH_E_WRONG_TYPE, "found nothing", 0},
        {AGENT "  prompt: [a]\n", 6, 11, "agents[0].prompt", BH_E_WRONG_TYPE,
         "expected a prompt as a text or {file: PATH}, found a list", 0},
        {AGENT "  prompt: {fil: a}\n", 6, 12, "agents[0].prompt.fil", BH_E_UNKNOWN_KEY, "did you mean 'file'?", 1},
        {AGENT "  prompt: {file: /etc/passwd}\n", 6, 18, "agents[0].prompt.file", BH_E_BAD_VALUE,
         "'/etc/passwd' is absolute", 0},
        {AGENT "  prompt: {file: ../p.md}\n", 6, 18, "agents[0].prompt.file", BH_E_BAD_VALUE,
         "leads out of the folder of this file", 0},
        {AGENT "  prompt: {file: a/../../p.md}\n", 6, 18, "agents[0].prompt.file", BH_E_BAD_VALUE,
         "leads out of the folder", 0},
        {AGENT "  prompt: {file: \"{{params.x}}/../../p.md\"}\n", 6, 18, "agents[0].prompt.file", BH_E_BAD_VALUE,
         "leads out of the folder", 0},
        {AGENT "  prompt: {file: ''}\n", 6, 18, "agents[0].prompt.file", BH_E_BAD_VALUE,
         "expected a path, found an empty text", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_placeholders(void **state)
{
    static const struct t_bad rows[] = {
        {RUN("\"echo {{params.topic}}\""), 3, 25, "agents[0].run", BH_E_BAD_VALUE,
         "'{{params.topic}}' in a command that is a string", 0},
        {RUN("\"echo {{params.topic}}\""), 3, 25, "agents[0].run", BH_E_BAD_VALUE,
         "set env: {TOPIC: \"{{params.topic}}\"} and use $TOPIC", 0},
        {RUN("\"echo {{ matrix.a-b }}\""), 3, 25, "agents[0].run", BH_E_BAD_VALUE,
         "set env: {A_B: \"{{ matrix.a-b }}\"} and use $A_B", 0},
        {RUN("\"echo {{item}}\""), 3, 25, "agents[0].run", BH_E_BAD_VALUE,
         "set env: {ITEM: \"{{item}}\"} and use $ITEM", 0},
        {RUN("\"docker ps --format '{{.Names}}'\""), 3, 25, "agents[0].run", BH_E_BAD_VALUE,
         "nothing is ever pasted into a shell; a program", 0},
        {AGENT "  setup: make {{round}}\n", 6, 10, "agents[0].setup", BH_E_BAD_VALUE, "use $ROUND", 0},
        {AGENT "  prepare: make {{round}}\n", 6, 12, "agents[0].prepare", BH_E_BAD_VALUE, "use $ROUND", 0},
        {AGENT "  check: {run: \"make {{round}}\"}\n", 6, 16, "agents[0].check.run", BH_E_BAD_VALUE, "use $ROUND", 0},
        {RUN("[a, \"{{param.x}}\"]"), 3, 29, "agents[0].run[1]", BH_E_UNDEFINED,
         "'{{param.x}}' stands for nothing here", 0},
        {RUN("[a, \"{{param.x}}\"]"), 3, 29, "agents[0].run[1]", BH_E_UNDEFINED,
         "known are params.NAME, matrix.NAME, item, round, attempt", 0},
        {RUN("[a, \"{{}}\"]"), 3, 29, "agents[0].run[1]", BH_E_UNDEFINED, "'{{}}'", 0},
        {RUN("[a, \"{{params.}}\"]"), 3, 29, "agents[0].run[1]", BH_E_UNDEFINED, "'{{params.}}'", 0},
        {RUN("[a, \"{{env.HOME}}\"]"), 3, 29, "agents[0].run[1]", BH_E_UNDEFINED, "'{{env.HOME}}'", 0},
        {RUN("[a, \"{{secrets.k}}\"]"), 3, 29, "agents[0].run[1]", BH_E_UNDEFINED, "'{{secrets.k}}'", 0},
        {RUN("[a, \"{{mcp_config}}\"]"), 3, 29, "agents[0].run[1]", BH_E_UNDEFINED, "'{{mcp_config}}'", 0},
        {RUN("[a, \"{{item\"]"), 3, 29, "agents[0].run[1]", BH_E_BAD_VALUE, "the '{{' is never closed", 0},
        {RUN("[a, \"{{item}} {{bad}}\"]"), 3, 29, "agents[0].run[1]", BH_E_UNDEFINED, "'{{bad}}'", 0},
        {AGENT "  prompt: \"{{ artifact.x }}\"\n", 6, 11, "agents[0].prompt", BH_E_UNDEFINED,
         "'{{ artifact.x }}' stands for nothing", 0},
        {AGENT "  env: {A: \"{{url}}\"}\n", 6, 12, "agents[0].env.A", BH_E_UNDEFINED, "'{{url}}'", 0},
        {AGENT "  env: {\"A{{item}}\": b}\n", 6, 9, "agents[0].env[\"A{{item}}\"]", BH_E_BAD_VALUE,
         "is not expanded here", 0},
        {AGENT "  files: {\"{{x}}\": b}\n", 6, 11, "agents[0].files[\"{{x}}\"]", BH_E_UNDEFINED, "'{{x}}'", 0},
        {AGENT "  box: \"{{params.x}}\"\n", 6, 8, "agents[0].box", BH_E_BAD_VALUE,
         "is expanded in list-form commands, prompt, inputs", 0},
        {AGENT "  needs: [\"{{params.x}}\"]\n", 6, 11, "agents[0].needs[0]", BH_E_BAD_VALUE, "is not expanded here", 0},
        {HEAD "agents: [{name: a, brain: [b, \"{{mcp}}\"]}]\n", 3, 31, "agents[0].brain[1]", BH_E_UNDEFINED,
         "attempt and mcp_config", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_inputs(void **state)
{
    static const struct t_bad rows[] = {
        {AGENT "  inputs: x\n", 6, 11, "agents[0].inputs", BH_E_WRONG_TYPE,
         "expected a list of artifact names, found 'x'", 0},
        {AGENT "  inputs: {x: y}\n", 6, 11, "agents[0].inputs", BH_E_WRONG_TYPE, "found a map", 0},
        {AGENT "  inputs: [[x]]\n", 6, 12, "agents[0].inputs[0]", BH_E_WRONG_TYPE,
         "expected an input as a name or a map, found a list", 0},
        {AGENT "  inputs:\n    -\n    - x\n", 7, 5, "agents[0].inputs[0]", BH_E_WRONG_TYPE, "found nothing", 0},
        {AGENT "  inputs: [{nme: x}]\n", 6, 13, "agents[0].inputs[0].nme", BH_E_UNKNOWN_KEY, "did you mean 'name'?", 1},
        {AGENT "  inputs: [{path: x}]\n", 6, 12, "agents[0].inputs[0].name", BH_E_MISSING_KEY, "an input needs 'name'",
         0},
        {AGENT "  inputs: [../x]\n", 6, 12, "agents[0].inputs[0]", BH_E_BAD_NAME,
         "'../x' is not a name of an artifact: it has '..' as a segment", 0},
        {AGENT "  inputs: [/x]\n", 6, 12, "agents[0].inputs[0]", BH_E_BAD_NAME, "it begins with '/'", 0},
        {AGENT "  inputs: [x/]\n", 6, 12, "agents[0].inputs[0]", BH_E_BAD_NAME, "it ends with '/'", 0},
        {AGENT "  inputs: [a//b]\n", 6, 12, "agents[0].inputs[0]", BH_E_BAD_NAME, "empty segment", 0},
        {AGENT "  inputs: [a b]\n", 6, 12, "agents[0].inputs[0]", BH_E_BAD_NAME, "'a b' is not a name", 0},
        {AGENT "  inputs: [a@x]\n", 6, 12, "agents[0].inputs[0]", BH_E_BAD_NAME, "kept for attempts and rounds", 0},
        {AGENT "  inputs: [a@2b]\n", 6, 12, "agents[0].inputs[0]", BH_E_BAD_NAME, "'@'", 0},
        {AGENT "  inputs: ['']\n", 6, 12, "agents[0].inputs[0]", BH_E_BAD_VALUE, "found an empty text", 0},
        {AGENT "  inputs: [a, b, a]\n", 6, 18, "agents[0].inputs[2]", BH_E_INVALID, "the input 'a' is here already", 0},
        {AGENT "  inputs: [{name: a, path: ../b}]\n", 6, 28, "agents[0].inputs[0].path", BH_E_BAD_VALUE,
         "the path '../b' has '..' in it", 0},
        {AGENT "  inputs: [{name: a, path: /etc/b}]\n", 6, 28, "agents[0].inputs[0].path", BH_E_BAD_VALUE,
         "'/etc/b' is not below /workspace/in", 0},
        {AGENT "  inputs: [{name: a, path: /workspace/input}]\n", 6, 28, "agents[0].inputs[0].path", BH_E_BAD_VALUE,
         "is not below /workspace/in", 0},
        {AGENT "  inputs: [{name: a, path: .}]\n", 6, 28, "agents[0].inputs[0].path", BH_E_BAD_VALUE,
         "names the folder itself", 0},
        {AGENT "  inputs: [{name: a, optional: maybe}]\n", 6, 32, "agents[0].inputs[0].optional", BH_E_WRONG_TYPE,
         "expected true or false, found 'maybe'", 0},
        {AGENT "  inputs: [a, {name: b, path: ./a}]\n", 6, 15, "agents[0].inputs[1]", BH_E_INVALID,
         "the input 'a' already lies at in/a", 0},
        {AGENT "  inputs: [{name: a, path: c}, {name: b, path: c}]\n", 6, 32, "agents[0].inputs[1]", BH_E_INVALID,
         "the input 'a' already lies at in/c", 0},
        {AGENT "  inputs: [{name: 'a-*', path: b}]\n", 6, 32, "agents[0].inputs[0].path", BH_E_INVALID,
         "'path' beside a glob", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_outputs(void **state)
{
    static const struct t_bad rows[] = {
        {AGENT "  outputs: x\n", 6, 12, "agents[0].outputs", BH_E_WRONG_TYPE, "expected a list of outputs, found 'x'",
         0},
        {AGENT "  outputs: [[x]]\n", 6, 13, "agents[0].outputs[0]", BH_E_WRONG_TYPE,
         "expected an output as a name or a map, found a list", 0},
        {AGENT "  outputs: ['*.txt']\n", 6, 13, "agents[0].outputs[0]", BH_E_BAD_NAME,
         "many files are declared as {glob: \"*.txt\"}", 0},
        {AGENT "  outputs: [a@2]\n", 6, 13, "agents[0].outputs[0]", BH_E_BAD_NAME, "'@', which is kept for attempts",
         0},
        {AGENT "  outputs: [-x]\n", 6, 13, "agents[0].outputs[0]", BH_E_BAD_NAME, "does not begin with a letter", 0},
        {AGENT "  outputs: [.hidden]\n", 6, 13, "agents[0].outputs[0]", BH_E_BAD_NAME, "does not begin with a letter",
         0},
        {AGENT "  outputs: [\xc3\xa9]\n", 6, 13, "agents[0].outputs[0]", BH_E_BAD_NAME, "a character other than", 0},
        {AGENT "  outputs: [\"a/{{params.x}}/../b\"]\n", 6, 13, "agents[0].outputs[0]", BH_E_BAD_NAME,
         "'..' as a segment", 0},
        {AGENT "  outputs: [{name: x, nmae: y}]\n", 6, 23, "agents[0].outputs[0].nmae", BH_E_UNKNOWN_KEY,
         "did you mean 'name'?", 0},
        {AGENT "  outputs: [x, y, {nam: z}]\n", 6, 20, "agents[0].outputs[2].nam", BH_E_UNKNOWN_KEY,
         "did you mean 'name'?", 1},
        {AGENT "  outputs: [{path: x}]\n", 6, 13, "agents[0].outputs[0].name", BH_E_MISSING_KEY,
         "an output needs 'name'", 0},
        {AGENT "  outputs: [{name: x, glob: y*}]\n", 6, 23, "agents[0].outputs[0].glob", BH_E_UNKNOWN_KEY,
         "'glob' is no key of an output", 0},
        {AGENT "  outputs: [{glob: 'y*', path: z}]\n", 6, 26, "agents[0].outputs[0].path", BH_E_UNKNOWN_KEY,
         "'path' is no key of a glob output", 0},
        {AGENT "  outputs: [{glob: y}]\n", 6, 20, "agents[0].outputs[0].glob", BH_E_BAD_VALUE, "'y' has none of * ** ?",
         0},
        {AGENT "  outputs: [{glob: '../*'}]\n", 6, 20, "agents[0].outputs[0].glob", BH_E_BAD_NAME, "'..' as a segment",
         0},
        {AGENT "  outputs: [{name: x, kind: folder}]\n", 6, 29, "agents[0].outputs[0].kind", BH_E_BAD_VALUE,
         "expected file or dir, found 'folder'", 0},
        {AGENT "  outputs: [{name: x, path: prompt.md}]\n", 6, 29, "agents[0].outputs[0].path", BH_E_BAD_VALUE,
         "'prompt.md' is where bulkhead puts what is the agent's own", 0},
        {AGENT "  files: {in/x: ./x}\n", 6, 11, "agents[0].files[\"in/x\"]", BH_E_BAD_VALUE,
         "'in/x' is where bulkhead puts what is the agent's own", 0},
        {AGENT "  files: {./params.json: ./x}\n", 6, 11, "agents[0].files[\"./params.json\"]", BH_E_BAD_VALUE,
         "is where bulkhead puts what is the agent's own", 0},
        {AGENT "  outputs: [{name: x, path: /tmp/x}]\n", 6, 29, "agents[0].outputs[0].path", BH_E_BAD_VALUE,
         "'/tmp/x' is not below /workspace", 0},
        {AGENT "  outputs: [{name: x, path: out/../../x}]\n", 6, 29, "agents[0].outputs[0].path", BH_E_BAD_VALUE,
         "has '..' in it", 0},
        {AGENT "  outputs: [{name: x, max_size: 10}]\n", 6, 33, "agents[0].outputs[0].max_size", BH_E_BAD_VALUE,
         "add the unit: 10B", 0},
        {AGENT "  outputs: [{name: x, max_size: 10MBit}]\n", 6, 33, "agents[0].outputs[0].max_size", BH_E_BAD_VALUE,
         "a size like 512KiB", 0},
        {AGENT "  outputs: [{name: x, max_size: 0MiB}]\n", 6, 33, "agents[0].outputs[0].max_size", BH_E_BAD_VALUE,
         "is not above zero", 0},
        {AGENT "  outputs: [{name: x, max_size: [1]}]\n", 6, 33, "agents[0].outputs[0].max_size", BH_E_WRONG_TYPE,
         "found a list", 0},
        {AGENT "  outputs: [{name: x, max_files: 2}]\n", 6, 23, "agents[0].outputs[0].max_files", BH_E_INVALID,
         "is for 'kind: dir' and globs", 0},
        {AGENT "  outputs: [{glob: '*', max_files: 0}]\n", 6, 36, "agents[0].outputs[0].max_files", BH_E_BAD_VALUE,
         "0 is out of range", 0},
        {AGENT "  outputs: [{name: x, validate: json}]\n", 6, 33, "agents[0].outputs[0].validate", BH_E_WRONG_TYPE,
         "expected a validation as a map, found 'json'", 0},
        {AGENT "  outputs: [{name: x, validate: {}}]\n", 6, 33, "agents[0].outputs[0].validate", BH_E_BAD_VALUE,
         "checks nothing", 0},
        {AGENT "  outputs: [{name: x, validate: {kind: yaml}}]\n", 6, 40, "agents[0].outputs[0].validate.kind",
         BH_E_BAD_VALUE, "expected json, jsonl, csv", 0},
        {AGENT "  outputs: [{name: x, validate: {kind: patch, paths: [../x]}}]\n", 6, 55,
         "agents[0].outputs[0].validate.paths[0]", BH_E_BAD_VALUE, "has '..' in it", 0},
        {AGENT "  outputs: [{name: x, validate: {kind: csv, paths: [x]}}]\n", 6, 45,
         "agents[0].outputs[0].validate.paths", BH_E_INVALID, "'paths' is about the files of a patch", 0},
        {AGENT "  outputs: [{name: x, validate: {max_files: 1}}]\n", 6, 34, "agents[0].outputs[0].validate.max_files",
         BH_E_INVALID, "'max_files' is about the files of a patch", 0},
        {AGENT "  outputs: [{name: x, validate: {command: test}}]\n", 6, 43, "agents[0].outputs[0].validate.command",
         BH_E_WRONG_TYPE, "expected a command as a list of strings, found 'test'", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_files_and_env(void **state)
{
    static const struct t_bad rows[] = {
        {AGENT "  files: [a]\n", 6, 10, "agents[0].files", BH_E_WRONG_TYPE,
         "expected a map of path in /workspace to file, found a list", 0},
        {AGENT "  files: {a: }\n", 6, 12, "agents[0].files.a", BH_E_WRONG_TYPE, "expected a path, found nothing", 0},
        {AGENT "  files: {a: [b]}\n", 6, 14, "agents[0].files.a", BH_E_WRONG_TYPE, "expected a path, found a list", 0},
        {AGENT "  files: {../a: b}\n", 6, 11, "agents[0].files[\"../a\"]", BH_E_BAD_VALUE,
         "the path '../a' has '..' in it", 0},
        {AGENT "  files: {/etc/a: b}\n", 6, 11, "agents[0].files[\"/etc/a\"]", BH_E_BAD_VALUE,
         "is not below /workspace", 0},
        {AGENT "  files: {'': b}\n", 6, 11, "agents[0].files[\"\"]", BH_E_BAD_VALUE, "the path '' is empty", 0},
        {AGENT "  files: {.: b}\n", 6, 11, "agents[0].files[\".\"]", BH_E_BAD_VALUE, "names the folder itself", 0},
        {AGENT "  files: {in/a: b}\n", 6, 11, "agents[0].files[\"in/a\"]", BH_E_BAD_VALUE,
         "'in/a' is where bulkhead puts what is the agent's own", 0},
        {AGENT "  files: {a: /b}\n", 6, 14, "agents[0].files.a", BH_E_BAD_VALUE,
         "is absolute: paths lie beneath the folder of this file", 0},
        {AGENT "  files: {a: ../b}\n", 6, 14, "agents[0].files.a", BH_E_BAD_VALUE, "leads out of the folder", 0},
        {AGENT "  files: {a: b, ./a: c}\n", 6, 17, "agents[0].files[\"./a\"]", BH_E_BAD_VALUE,
         "the path 'a' is here already", 0},
        {AGENT "  env: [A=b]\n", 6, 8, "agents[0].env", BH_E_WRONG_TYPE,
         "expected a map of variable to text, found a list", 0},
        {AGENT "  env: {A: }\n", 6, 10, "agents[0].env.A", BH_E_WRONG_TYPE, "an empty text is written ''", 0},
        {AGENT "  env: {A: {b: c}}\n", 6, 12, "agents[0].env.A", BH_E_WRONG_TYPE, "expected a text, found a map", 0},
        {AGENT "  env: {'': b}\n", 6, 9, "agents[0].env[\"\"]", BH_E_BAD_NAME, "it is empty", 0},
        {AGENT "  env: {A=B: b}\n", 6, 9, "agents[0].env[\"A=B\"]", BH_E_BAD_NAME,
         "'A=B' is not a name of a variable: it holds '='", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_times(void **state)
{
    static const struct t_bad rows[] = {
        {AGENT "  timeout: 10\n", 6, 12, "agents[0].timeout", BH_E_BAD_VALUE, "add the unit: 10s", 0},
        {AGENT "  timeout: [10s]\n", 6, 12, "agents[0].timeout", BH_E_WRONG_TYPE,
         "expected a duration like 30s, 10m or 1h30m, found a list", 0},
        {AGENT "  timeout: 0s\n", 6, 12, "agents[0].timeout", BH_E_BAD_VALUE, "the duration 0s is not above zero", 0},
        {AGENT "  timeout: {rum: 1s}\n", 6, 13, "agents[0].timeout.rum", BH_E_UNKNOWN_KEY, "did you mean 'run'?", 0},
        {AGENT "  timeout: {run: forever}\n", 6, 18, "agents[0].timeout.run", BH_E_BAD_VALUE, "found 'forever'", 0},
        {AGENT "  timeout: {run: 0s}\n", 6, 18, "agents[0].timeout.run", BH_E_BAD_VALUE, "is not above zero", 0},
        {AGENT "  retries: -1\n", 6, 12, "agents[0].retries", BH_E_BAD_VALUE, "-1 is out of range", 0},
        {AGENT "  retries: often\n", 6, 12, "agents[0].retries", BH_E_WRONG_TYPE, "expected an integer, found 'often'",
         0},
        {AGENT "  retries: {backoff: 1s}\n", 6, 12, "agents[0].retries.max", BH_E_MISSING_KEY, "retries needs 'max'",
         0},
        {AGENT "  retries: {max: 1, grow: {memory: 2}}\n", 6, 21, "agents[0].retries.grow", BH_E_NOT_SUPPORTED,
         "reserved", 0},
        {AGENT "  retries: {max: 1, on: [policy]}\n", 6, 26, "agents[0].retries.on[0]", BH_E_BAD_VALUE,
         "by 'policy' is never tried again", 0},
        {AGENT "  retries: {max: 1, on: [exit, crash]}\n", 6, 32, "agents[0].retries.on[1]", BH_E_BAD_VALUE,
         "found 'crash'", 0},
        {AGENT "  retries: {max: 1, backoff: 2m, max_backoff: 1m}\n", 6, 47, "agents[0].retries.max_backoff",
         BH_E_INVALID, "max_backoff is below backoff", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_references(void **state)
{
    static const struct t_bad rows[] = {
        {AGENT "  needs: x\n", 6, 10, "agents[0].needs", BH_E_WRONG_TYPE, "expected a list of agent names, found 'x'",
         0},
        {AGENT "  needs: [b]\n", 6, 11, "agents[0].needs[0]", BH_E_UNDEFINED, "there is no agent 'b'", 0},
        {HEAD "agents: [{name: retrieval, run: b}, {name: c, run: d, needs: [retreival]}]\n", 3, 63,
         "agents[1].needs[0]", BH_E_UNDEFINED, "did you mean 'retrieval'?", 0},
        {HEAD "agents: [{name: a, run: b}, {name: c, run: d, needs: [a, a]}]\n", 3, 58, "agents[1].needs[1]",
         BH_E_INVALID, "'a' is needed already", 0},
        {AGENT "  box: lab\n", 6, 8, "agents[0].box", BH_E_UNDEFINED, "there is no box 'lab'", 0},
        {AGENT "  box: labb\nboxes: {labs: {}}\n", 6, 8, "agents[0].box", BH_E_UNDEFINED, "did you mean 'labs'?", 0},
        {AGENT "  box: crw\n", 6, 8, "agents[0].box", BH_E_UNDEFINED, "this document declares no box", 0},
        {AGENT "  secrets: [k]\n", 6, 13, "agents[0].secrets[0]", BH_E_UNDEFINED, "there is no secret 'k'", 0},
        {AGENT "  secrets: [a-b, a_b]\nsecrets: {a-b: {env: K}, a_b: {env: K}}\n", 6, 18, "agents[0].secrets[1]",
         BH_E_DUPLICATE_KEY, "two secrets would be in the variable 'A_B'", 0},
        {AGENT "  secrets: [zz]\nsecrets: {key: {env: K}}\n", 6, 13, "agents[0].secrets[0]", BH_E_UNDEFINED,
         "this document declares key", 0},
        {AGENT "  secrets: {A: k}\n", 6, 16, "agents[0].secrets.A", BH_E_UNDEFINED, "there is no secret 'k'", 0},
        {AGENT "  secrets: k\n", 6, 12, "agents[0].secrets", BH_E_WRONG_TYPE,
         "expected a list of names of secrets, or a map", 0},
        {AGENT "  secrets: {A=B: k}\nsecrets: {k: {env: K}}\n", 6, 13, "agents[0].secrets[\"A=B\"]", BH_E_BAD_NAME,
         "holds '='", 0},
        {AGENT "  endpoints: [e]\n", 6, 15, "agents[0].endpoints[0]", BH_E_UNDEFINED, "there is no endpoint 'e'", 0},
        {AGENT "  endpoints: {e: f}\n", 6, 14, "agents[0].endpoints", BH_E_WRONG_TYPE,
         "expected a list of names of endpoints, found a map", 0},
        {AGENT "  when: {param: p, is: x}\n", 6, 17, "agents[0].when.param", BH_E_UNDEFINED, "there is no param 'p'",
         0},
        {AGENT "  needs: [c]\nfinally: [{name: c, run: d, needs: [b]}]\n", 7, 37, "finally[0].needs[0]", BH_E_UNDEFINED,
         "there is no agent 'b'", 0},
    };
    (void)state;
    T_BAD(rows);
}

/* What no system call would take is refused where it is written. */
static void test_long_texts(void **state)
{
    static const struct {
        const char *before;
        int line, column;
        const char *path, *part;
    } rows[] = {
        {AGENT "  env: {A: ", 6, 12, "agents[0].env.A", "a value of 131073 bytes: the most is 128 KiB"},
        {AGENT "  labels: {A: ", 6, 15, "agents[0].labels.A", "131073 bytes"},
        {HEAD "agents: [{name: a, run: ", 3, 25, "agents[0].run", "an argument of 131073 bytes"},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_buf text = BH_BUF_INIT;
        bh_buf_adds(&text, rows[i].before);
        for (int k = 0; k < 128 * 1024 + 1; k++)
            bh_buf_addc(&text, 'x');
        bh_buf_adds(&text, i == 2 ? "}]\n" : "}\n");
        struct t_bad row = {text.data, rows[i].line, rows[i].column, rows[i].path, BH_E_BAD_VALUE, rows[i].part, 0};
        t_check_bad(&row, 1);
        bh_buf_fini(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agent),  cmocka_unit_test(test_commands),   cmocka_unit_test(test_placeholders),
        cmocka_unit_test(test_inputs), cmocka_unit_test(test_outputs),    cmocka_unit_test(test_files_and_env),
        cmocka_unit_test(test_times),  cmocka_unit_test(test_references), cmocka_unit_test(test_long_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
