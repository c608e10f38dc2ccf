"""Rules on the flags of engines."""

from __future__ import annotations

from pdctl.spec.rules.about import About, doubt, warning

ARGUMENTS = (
    About(
        "ARG001",
        "A flag is set by pdctl itself",
        "Given twice, the last one counts, and files, ports and plans would say something else than the"
        " process"
        " does.",
        "Use the field that the error names.",
        "serving: {prefillers: {extra_args: [--port, '9000']}, decoders: {}}\n",
    ),
    About(
        "ARG002",
        "A flag and its value stand in one word",
        "The engine would take `--seed 1` as a whole for the name of a flag.",
        'Write two entries, as in ["--seed", "1"], or join them by `=`.',
        "serving: {prefillers: {extra_args: [--seed 1]}, decoders: {}}\n",
    ),
    About(
        "ARG003",
        "Decoders keep prefixes of their own with LMCache",
        "They would never fetch chunks that they have already, and those stay in the transfer buffer until"
        " it is"
        " full (pd_backend.py, 0.3.10 to 0.5.6).",
        "Remove the flag.",
        "serving: {prefillers: {}, decoders: {extra_args: [--enable-prefix-caching]}}\n",
    ),
    warning(
        "ARG004",
        "A flag is given twice with different values",
        "The engine takes the last one without a word.",
        "Keep one of them.",
        "serving: {prefillers: {extra_args: [--seed=1, --seed=2]}, decoders: {}}\n",
    ),
    warning(
        "ARG005",
        "Statistics are switched off",
        "The engine then has no counters: `pdctl verify` cannot see that KV moved, and nothing can be"
        " watched.",
        "Remove the flag.",
        "serving: {prefillers: {}, decoders: {extra_args: [--disable-log-stats]}}\n",
    ),
    doubt(
        "ARG006",
        "The beginning of a flag fits several",
        "vLLM takes any beginning of a flag that fits one only, and ends with `ambiguous option` otherwise."
        " pdctl reads beginnings as vLLM does, so that no rule is missed by them.",
        "Write the flag in full. Suppress the rule if your vLLM has only one of them.",
        "serving: {prefillers: {extra_args: [--enable-p]}, decoders: {}}\n",
    ),
    doubt(
        "ARG007",
        "A switch is given a value",
        "Switches are on when they are there, and off as `--no-...`: vLLM refuses `--enable-lora=true`, and"
        " takes the `true` of `--enable-lora true` for a model.",
        "Remove the value, or write `--no-...` for a switch that shall be off.",
        "serving: {prefillers: {extra_args: [--enforce-eager=true]}, decoders: {}}\n",
    ),
    warning(
        "ARG008",
        "A flag is not known",
        "vLLM ends with `unrecognized arguments` for a flag that it does not have. pdctl knows those of"
        " 0.11.0 and 0.32.0.",
        "Correct the flag. Suppress the rule where your vLLM has it.",
        "serving: {prefillers: {extra_args: [--enforce-eagre]}, decoders: {}}\n",
    ),
    doubt(
        "ARG009",
        "A flag has no value",
        "vLLM ends with `expected one argument`.",
        "Give it a value, in the same word after `=` or in the next.",
        "serving: {prefillers: {extra_args: [--seed]}, decoders: {}}\n",
    ),
    doubt(
        "ARG010",
        "A word belongs to no flag",
        "vLLM takes it for a second model and ends with `unrecognized arguments`. Often a flag has lost its"
        " hyphens, or an editor has made one dash of two.",
        "Remove the word, or name its flag.",
        "serving: {prefillers: {extra_args: [seed, '1']}, decoders: {}}\n",
    ),
    doubt(
        "ARG011",
        "A flag has a value that vLLM does not know",
        "vLLM ends with `invalid choice`; capital letters count.",
        "Take one that the error names. Suppress the rule where your vLLM has it.",
        "serving:\n  prefillers: {extra_args: [--kv-cache-dtype=FP8]}\n"
        "  decoders: {extra_args: [--kv-cache-dtype=FP8]}\n",
    ),
)
