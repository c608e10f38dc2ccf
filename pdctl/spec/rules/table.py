"""Every rule by its id: an id is never used again for something else."""

from __future__ import annotations

from pdctl.spec.rules.about import (
    About,
    arguments,
    engines,
    facts,
    models,
    nics,
    places,
    ready,
    repositories,
    stack,
    syntax,
    transfer,
    versions,
)

FAMILIES: dict[str, tuple[About, ...]] = {
    "The file": (*syntax.SYNTAX, *syntax.TYPES),
    "Secrets": syntax.SECRETS,
    "Hosts": places.HOSTS,
    "Roles and placement": (*places.ROLES, *places.GPUS),
    "NICs": nics.NICS,
    "Ports": places.PORTS,
    "What prefillers and decoders share": transfer.MATCHES,
    "KV buffers": transfer.BUFFERS,
    "Model, memory and network": (*models.MODELS, *models.MEMORY, *models.NETWORK),
    "Engines": (*engines.ENGINES, *arguments.ARGUMENTS, *engines.VARIABLES),
    "Versions": (*engines.PINS, *versions.FITS),
    "Repositories of packages": repositories.REPOSITORIES,
    "The lock": versions.LOCKS,
    "What hosts say (`validate --hosts`)": (*facts.FACTS, *ready.READY, *stack.STACK),
    "Keys without effect": engines.EFFECTS,
    "Suppressions": syntax.SUPPRESSIONS,
}
TABLE: dict[str, About] = {rule.id: rule for family in FAMILIES.values() for rule in family}
