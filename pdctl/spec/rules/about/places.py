"""Rules on hosts, roles, placement, GPUs and ports."""

from __future__ import annotations

from pdctl.spec.rules.about import About, doubt, warning

TWO = "hosts:\n- {name: gpu01, address: 10.0.0.11, gpus: 8}\n"
HOSTS = (
    About(
        "HOST001",
        "Two hosts have one name",
        "Plans, records and logs tell hosts apart by their names.",
        "Give each host its own name.",
        TWO + "- {name: gpu01, address: 10.0.0.12}\n",
    ),
    About(
        "HOST002",
        "Two hosts have one address",
        "One machine listed twice would get two sets of instances on the same GPUs and ports.",
        "List each machine once.",
        TWO + "- {name: gpu02, address: 10.0.0.11}\n",
    ),
    About(
        "HOST003",
        "A name with `_`, or one that is a number, is used as an address",
        "Engines and the proxy are called by URL, where host names have letters, digits, `-` and `.` only"
        " (RFC 1123); HTTP clients refuse others although DNS finds them, and take numbers for addresses.",
        "Add `address`, or use hyphens.",
        "hosts: [{name: gpu_01, gpus: 8}]\n",
    ),
    About(
        "HOST004",
        "A loopback address is told to other hosts",
        "127.0.0.1 and localhost mean another machine on each host, so decoders would ask themselves for KV.",
        "Give the host an address that the others reach it at.",
        TWO + "- {name: gpu02, address: 127.0.0.1}\n",
    ),
    About(
        "HOST005",
        "`connection: local` is used with several hosts",
        "It works on this machine only.",
        "Use `connection: ssh`.",
        TWO + "- {name: gpu02, address: 10.0.0.12}\nssh: {connection: local}\n",
    ),
    About(
        "HOST006",
        "A host has no IP address for its peers",
        "Debian and Ubuntu map a host's own name to 127.0.1.1, so an engine that binds its name is reached by"
        " nobody else.",
        "Give `private_address` (or `address`) as an IP address.",
        TWO + "- {name: gpu02, address: gpu02.example.net, gpus: 8}\n",
    ),
    About(
        "HOST007",
        "An address is link-local IPv6",
        "It leads nowhere without the interface of the host that uses it, and URLs have no place for one.",
        "Give an address that is the same from everywhere.",
        'hosts: [{name: gpu01, address: "fe80::11", gpus: 8}]\n',
    ),
    warning(
        "HOST008",
        "Hosts are reached by different IP versions",
        "Prefillers, decoders and the proxy call each other at these addresses; a host with one version only"
        " cannot reach the others.",
        "Use addresses of one version, or make sure that every host has both.",
        TWO + '- {name: gpu02, address: "fd00::12", gpus: 8}\n',
    ),
)
ROLES = (
    About(
        "ROLE001",
        "A role that the mode needs is missing",
        "`disaggregated` needs `prefillers` and `decoders`, `aggregated` needs `instances`.",
        "Add it.",
        "serving: {prefillers: {}}\n",
    ),
    About(
        "ROLE002",
        "A role does not belong to the mode",
        "It would never be started.",
        "Remove it, or change `mode`.",
        "serving: {prefillers: {}, decoders: {}, instances: {}}\n",
    ),
    About(
        "ROLE003",
        "A role has no instance",
        "Without one of each nothing can be answered.",
        "Set `count` to 1 or more.",
        "serving: {prefillers: {count: 0}, decoders: {}}\n",
    ),
    About(
        "PLACE001",
        "A host is named that does not exist",
        "Only hosts of this file can be used.",
        "Take the name that the error suggests, or add the host.",
        "serving: {prefillers: {hosts: [gpu1]}, decoders: {}}\n",
    ),
    About(
        "PLACE002",
        "No host carries the labels",
        "The role would have nowhere to run.",
        "Label hosts under `hosts`.",
        "serving: {prefillers: {labels: {rack: a}}, decoders: {}}\n",
    ),
    About(
        "PLACE003",
        "`placement` and `count` differ",
        "One of the two is a leftover.",
        "Give one entry for each instance, or leave `count` out.",
        "serving: {prefillers: {count: 2, placement: [gpu01]}, decoders: {}}\n",
    ),
    About(
        "PLACE004",
        "No host is left to place an instance on",
        "The hosts that are named do not carry the labels that are asked for.",
        "Check `hosts` and `labels` of the role.",
    ),
    About(
        "PLACE005",
        "A host is named twice in one list",
        "Instances would be placed on the same GPUs twice.",
        "Name each host once.",
        "serving: {prefillers: {hosts: [gpu01, gpu01]}, decoders: {}}\n",
    ),
)
GPUS = (
    About(
        "GPU001",
        "The list of GPUs is not one for each rank",
        "Each tensor-parallel rank runs on a GPU of its own.",
        "List one index for each rank, or leave `gpus` out.",
        "serving: {prefillers: {tensor_parallel: 2, placement: [{host: gpu01, gpus: [0]}]},"
        " decoders: {tensor_parallel: 2}}\n",
    ),
    About(
        "GPU002",
        "GPUs are asked of a host that has none",
        "The spec gives the host no `gpus`.",
        "Give the host its `gpus` under `hosts`, or choose another.",
        "hosts: [{name: gpu01}]\nserving: {prefillers: {placement: [{host: gpu01, gpus: [0]}]}, decoders:"
        " {}}\n",
    ),
    About(
        "GPU003",
        "A GPU is listed twice for one instance",
        "Two ranks cannot share a GPU: what counts is the memory that is free at start.",
        "Give each rank a GPU of its own.",
        "serving: {prefillers: {tensor_parallel: 2, placement: [{host: gpu01, gpus: [1, 1]}]},"
        " decoders: {tensor_parallel: 2}}\n",
    ),
    About(
        "GPU004",
        "A host has no such GPU",
        "Indexes count from 0 in PCI order, up to one less than the host's `gpus`.",
        "Use an index that exists.",
        "serving: {prefillers: {placement: [{host: gpu01, gpus: [8]}]}, decoders: {}}\n",
    ),
    About(
        "GPU005",
        "Two instances claim one GPU",
        "Both would take their share of its memory, and the transfer buffers come on top: the second one"
        " dies at"
        " start.",
        "Lower a count or tensor_parallel, or place one of them elsewhere.",
        "serving: {prefillers: {placement: [{host: gpu01, gpus: [7]}]}, decoders: {}}\n",
    ),
    About(
        "GPU006",
        "There are too few GPUs",
        "Each instance needs tensor_parallel GPUs of one host.",
        "Lower count or tensor_parallel, or add hosts or GPUs.",
        "serving: {prefillers: {count: 9}, decoders: {}}\n",
    ),
    warning(
        "GPU007",
        "The GPU's model is not known",
        "Its memory, speed and NVSwitches come from a table of models; with another name, or a misspelt one,"
        " whether weights, KV and buffers fit is not checked, nor whether the network keeps up.",
        "Correct the name; of a GPU that is not in the table give `memory_gib`, and suppress the rule.",
        "hosts: [{name: gpu01, address: 10.0.0.11, gpus: {count: 8, model: H100-SMX-80GB}}]\n",
    ),
    warning(
        "GPU008",
        "The GPU's memory is not that of its model",
        "`memory_gib` is for GPUs that the table does not hold; of those in it the table's memory counts.",
        "Remove `memory_gib`, or correct the model.",
        "hosts: [{name: g1, address: 10.0.0.11, gpus: {count: 8, model: H200-SXM-141GB, memory_gib: 80}}]\n",
    ),
)
PORTS = (
    About(
        "PORT001",
        "A port is beyond 65535",
        "An instance takes base + its number on the host (times TP for rank ports), which leaves the range.",
        "Lower the base.",
        "serving: {prefillers: {count: 2}, decoders: {}, ports: {prefiller: 65535}}\n",
    ),
    About(
        "PORT002",
        "A list of ports has the wrong length",
        "LMCache indexes `init` and `alloc` by TP rank and dies on a shorter list; vLLM opens one side"
        " channel,"
        " or one for each rank before 0.12.",
        "List as many as the error says, or leave the key out.",
        "serving: {prefillers: {tensor_parallel: 2}, decoders: {tensor_parallel: 2, placement: [{host: gpu01,"
        " ports: {init: [7300]}}]}}\n",
    ),
    About(
        "PORT003",
        "Two sockets of one host want the same port",
        "The second one cannot be opened: its process dies, or worse, the wrong one answers.",
        "Leave ports out and pdctl will choose them; or pin others.",
        "serving: {prefillers: {}, decoders: {}, ports: {prefiller: 7200}}\n",
    ),
    About(
        "PORT004",
        "Side channels are not consecutive",
        "vLLM before 0.12 counts up from the first, one for each rank, whatever the list says.",
        "List consecutive ports, or leave the key out.",
        "stack: article-2025\nserving: {connector: nixl, prefillers: {tensor_parallel: 2, placement:"
        " [{host: gpu01,"
        " ports: {side_channel: [5600, 5610]}}]}, decoders: {tensor_parallel: 2}}\n",
    ),
    warning(
        "PORT005",
        "A port is in the range that Linux gives to outgoing connections",
        "net.ipv4.ip_local_port_range is 32768-60999 by default; now and then some client socket sits on"
        " the port"
        " when the engine starts, and it fails with EADDRINUSE.",
        "Choose ports below 32768.",
        "serving: {prefillers: {}, decoders: {}, ports: {prefiller: 40100}}\n",
    ),
    doubt(
        "PORT006",
        "A port is below 1024",
        "Units run as the user `pdctl`, which may not listen there (net.ipv4.ip_unprivileged_port_start).",
        "Choose ports from 1024 on, and put a load balancer in front if clients need 80 or 443. Suppress"
        " the rule"
        " where the hosts allow it.",
        "serving: {prefillers: {}, decoders: {}, proxy: {ports: {http: 80}}}\n",
    ),
    doubt(
        "PORT007",
        "A port is that of ssh",
        "sshd listens there already, so the instance could not start. Where `ssh.port` is forwarded to"
        " another"
        " port of the host, suppress the rule.",
        "Choose another port.",
        "ssh: {port: 9100}\n",
    ),
)
