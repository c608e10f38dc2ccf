"""Rules on the file itself: that it can be read, its YAML, and the types of its values."""

from __future__ import annotations

from pdctl.spec.rules.about import About, warning

SYNTAX = (
    About(
        "FILE001",
        "The file cannot be read",
        "Without it there is nothing to check.",
        "Name the file as an argument, or write one with `pdctl init`.",
    ),
    About(
        "SYNTAX001",
        "The text is not valid YAML",
        "Past this place nobody can tell what was meant.",
        "Mostly the indentation of this line or the one above, a quote that is not closed, or text that needs"
        " quotes because it holds `: ` or begins with a sign of YAML's.",
        "cluster: [chat\n",
    ),
    About(
        "SYNTAX002",
        "The file is not UTF-8 text",
        "Another encoding would give other characters than those that its author saw.",
        "Save it as UTF-8.",
    ),
    About(
        "SYNTAX003",
        "A character cannot stand in the file",
        "Control characters are not allowed in YAML; zero-width ones and those that turn the direction of"
        " writing"
        " make a file read otherwise than it looks (CVE-2021-42574).",
        "Remove it, or write it as an escape inside double quotes.",
        "cluster: ch\u200bat\n",
    ),
    About(
        "SYNTAX004",
        "The file is larger than 1 MiB",
        "A file for 1,000 hosts takes about 60 KiB; a larger one is another file, or an attack.",
        "Name the right file.",
    ),
    About(
        "SYNTAX005",
        "Values are nested too deep",
        "The spec's own depth is 7; much more only costs memory.",
        "Flatten it.",
        f"slo: {'[' * 40}{']' * 40}\n",
    ),
    About(
        "SYNTAX006",
        "The file holds too many values once its anchors are expanded",
        "A few lines of anchors inside anchors can stand for billions of values.",
        "Repeat less through anchors, or split the cluster.",
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdef", "bcdefg", strict=True)
        ),
    ),
    About(
        "SYNTAX007",
        "A key is given twice",
        "Most YAML readers silently keep the last one, so a block that was pasted twice loses its first"
        " half.",
        "Keep one of them. A merge key (`<<`) with a key of its own beside it is no duplicate.",
        "model:\n  id: openai/gpt-oss-20b\n  id: openai/gpt-oss-120b\n",
    ),
    About(
        "SYNTAX008",
        "A tag (`!...`) is used",
        "Tags make YAML readers build other things than text, numbers and lists.",
        'Write text in quotes: "1.10".',
        "cluster: !!str chat\n",
    ),
    About(
        "SYNTAX009",
        "A key is not text",
        "All keys of a spec are names.",
        "Put it in quotes if it is a name.",
        "slo: {1: 2}\n",
    ),
    About(
        "SYNTAX010",
        "A number begins with 0",
        "YAML 1.1 readers take it for octal, 1.2 ones for decimal.",
        "Write it without the zero, or in quotes if it is text.",
        "bench: {seed: 0123}\n",
    ),
    About(
        "SYNTAX011",
        "An anchor, an alias or a merge key is used wrongly",
        "An alias must follow its anchor and not stand inside it; `<<` must name a mapping.",
        "Quote the value if the `*` or `&` belongs to it.",
        "slo: *targets\n",
    ),
    About(
        "SYNTAX012",
        "The file holds a second document",
        "One file describes one cluster.",
        "Keep one, and remove what begins with `---`.",
        "slo: {}\n---\ncluster: other\n",
    ),
    About(
        "SYNTAX013",
        "A directive (`%...`) is used",
        "It would ask for another YAML than 1.2.",
        "Remove the lines that begin with `%`.",
        "%YAML 1.1\n---\ncluster: chat\n",
    ),
    About(
        "SYNTAX014",
        "A tab is used as indentation",
        "YAML does not allow it, since editors disagree on its width.",
        "Indent with spaces.",
        "slo:\n\tttft_ms: 1\n",
    ),
    About(
        "SYNTAX015",
        "The file is empty or no mapping",
        "A spec is a mapping of keys to values. Only `validate` and `lock --check` take a cluster.lock too.",
        "Begin it like `cluster: chat`; `pdctl init` writes a starter file.",
    ),
)
TYPES = (
    About(
        "TYPE001",
        "A value is of the wrong kind",
        "A list where text belongs, text where a number belongs: guessing would hide mistakes.",
        "Write what the error names; `pdctl explain` prints type, default and example of every field.",
        "bench: {input_len: long}\n",
    ),
    About(
        "TYPE002",
        "A number or a truth value stands where text belongs",
        "YAML reads 1.10 as 1.1 and 3.10 as 3.1: a version loses its zero before anybody can see it.",
        'Put it in quotes: "1.10".',
        "stack: {nixl: 1.10}\n",
    ),
    About(
        "TYPE003",
        "A required key is missing",
        "There is no sensible default for it.",
        "Add the key.",
        "model: {}\n",
    ),
    About(
        "TYPE004",
        "A key is unknown",
        "A misspelt key would otherwise be ignored without a word.",
        "Take the spelling that the error suggests, or remove it.",
        "hosts: [{name: gpu01, gpu: 8}]\n",
    ),
    About(
        "TYPE005",
        "A value is none of the allowed ones",
        "The field takes one of a few words.",
        "Choose one of those that the error lists.",
        "engine: {kind: sglang}\n",
    ),
    About(
        "TYPE006",
        "A number is too small or too large",
        "Outside these limits the value means nothing, e.g. a port above 65535.",
        "Choose one within the limits.",
        "slo: {ttft_ms: 0}\n",
    ),
    About(
        "TYPE007",
        "A text does not have the form that its field needs",
        "Names of hosts, addresses, versions and paths end up in URLs, units and commands, where only some"
        " characters are allowed.",
        "Write it as the error says.",
        "cluster: My Cluster\n",
    ),
    About(
        "TYPE008",
        "A text or a list is empty or too long",
        "An empty value is mostly one that was forgotten.",
        "Write a value, or remove the key.",
        "hosts: []\n",
    ),
    About(
        "TYPE009",
        "A key of the user's own does not have the form that it needs",
        "Names of environment variables and labels have a form of their own.",
        "Write it as the error says.",
        "secrets: {HF-TOKEN: {from_env: HF_TOKEN}}\n",
    ),
)
SECRETS = (
    About(
        "SECRET001",
        "A token stands in the file",
        "The file is committed and shared; whoever reads it can use the token.",
        "Name it under `secrets` as {from_env: NAME} or {from_file: PATH}, and revoke this one.",
        "model: {id: openai/gpt-oss-120b, served_name: hf_" + "a1B2" * 9 + "}\n",
    ),
    About(
        "SECRET002",
        "A secret has no source, or two",
        "pdctl must know where to read it when a playbook runs.",
        "Give exactly one of `from_env` and `from_file`.",
        "secrets: {HF_TOKEN: {}}\n",
    ),
    About(
        "SECRET003",
        "A variable is a secret and given in `env` too",
        "One would win, and which one is not for chance to say.",
        "Keep one of them.",
        "secrets: {HF_HUB_ETAG: {from_env: X}}\n"
        "serving: {prefillers: {env: {HF_HUB_ETAG: x}}, decoders: {}}\n",
    ),
    About(
        "SECRET004",
        "Something else than a reference stands under `secrets`",
        "What stands there may be the secret itself, so it is not repeated.",
        "Write `NAME: {from_env: VARIABLE}` or `NAME: {from_file: PATH}`.",
        "secrets: {HF_TOKEN: abc}\n",
    ),
    About(
        "SECRET005",
        "A variable that is named like a secret has a value",
        "Environment files of engines hold it in clear, and so does this file.",
        "Name it under `secrets`. Where the name only looks like one, suppress the rule.",
        "serving: {prefillers: {env: {S3_ACCESS_KEY: abc}}, decoders: {}}\n",
        suppressible=True,
    ),
)
SUPPRESSIONS = (
    About(
        "SUPPRESS001",
        "`suppress` names a rule that does not exist",
        "It would set nothing aside, and nobody would notice.",
        "Take the id from the error that is meant.",
        "suppress: [{rule: PORT999, reason: there is none}]\n",
    ),
    About(
        "SUPPRESS002",
        "`suppress` names a rule that cannot be suppressed",
        "Such a cluster could not be built, or would serve wrong answers; knowing better does not change"
        " that.",
        "Mend what the rule finds.",
        "suppress: [{rule: PORT003, reason: they will get along}]\n",
    ),
    warning(
        "SUPPRESS003",
        "`suppress` names a rule that finds nothing here",
        "A leftover would hide the next real finding of that rule.",
        "Remove the entry.",
        "suppress: [{rule: PORT005, reason: nothing is up there}]\n",
    )._replace(suppressible=False),
    About(
        "SUPPRESS004",
        "`suppress` names a rule twice",
        "Two reasons for one rule, and only one of them is read.",
        "Keep one entry.",
        "suppress:\n- {rule: PORT005, reason: said once}\n- {rule: PORT005, reason: said again}\n",
    ),
)
