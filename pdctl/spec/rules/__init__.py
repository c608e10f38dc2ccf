"""What must hold between the fields of a spec: one small pure function each, none needs a host."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster
from pdctl.spec.rules import (
    arguments,
    driver,
    effect,
    engine,
    environment,
    flags,
    hardware,
    hosts,
    layout,
    match,
    nics,
    pins,
    repositories,
    secret,
    suppress,
    versions,
)
from pdctl.spec.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(hosts.names_are_unique, {"hosts"}),
    Rule(hosts.addresses_are_unique, {"hosts"}),
    Rule(hosts.names_that_are_addresses_are_legal, {"hosts"}),
    Rule(hosts.addresses_reach_other_hosts, {"hosts"}),
    Rule(hosts.addresses_need_no_zone, {"hosts"}),
    Rule(hosts.peers_speak_one_ip_version, {"hosts"}),
    Rule(hosts.only_one_host_is_local, {"hosts", "ssh"}),
    Rule(hardware.gpu_models_are_known, {"engine", "hosts"}),
    Rule(hardware.gpu_memory_is_that_of_the_model, {"engine", "hosts"}),
    Rule(nics.ports_are_declared_once, {"hosts"}),
    Rule(nics.near_gpus_exist, {"engine", "hosts"}),
    Rule(nics.addresses_agree, {"hosts"}),
    Rule(nics.the_network_is_as_fast_as_its_nics, {"hosts"}),
    Rule(nics.nics_have_engines, {"engine", "hosts"}),
    Rule(layout.the_mode_has_its_pools, {"serving"}),
    Rule(layout.hosts_are_known, {"hosts", "serving"}),
    Rule(layout.hosts_are_named_once, {"serving"}),
    Rule(layout.labels_leave_a_host, {"hosts", "serving"}),
    Rule(layout.placement_fits_count, {"serving"}),
    Rule(layout.placed_gpus_exist, {"engine", "hosts", "serving"}),
    Rule(effect.placement_stands_alone, {"serving"}),
    Rule(effect.pinned_ports_are_opened, {"serving"}),
    Rule(effect.each_prompt_fits_one_step, {"model", "serving"}),
    Rule(effect.a_step_holds_all_requests, {"serving"}),
    Rule(effect.the_load_fits_the_model, {"bench", "model"}),
    Rule(effect.transfer_settings_have_a_transfer, {"serving"}),
    Rule(match.tensor_parallel_fits, {"serving", "stack", "engine"}),
    Rule(match.settings_are_the_same, {"serving"}),
    Rule(match.lmcache_variables_are_the_same, {"serving"}),
    Rule(match.the_hash_is_stable, {"serving", "stack", "engine"}),
    Rule(engine.the_cpu_engine_is_small, {"engine", "serving"}),
    Rule(engine.the_cpu_engine_has_one_system, {"engine", "hosts"}),
    Rule(engine.the_tiny_model_stays_off_gpus, {"engine", "model"}),
    Rule(engine.timing_is_the_simulators, {"engine"}),
    Rule(pins.the_base_is_shipped, {"stack"}),
    Rule(pins.the_cpu_engine_has_one_set, {"engine", "stack"}),
    Rule(driver.fabric_manager_fits_the_driver, {"stack", "engine"}),
    Rule(driver.the_package_is_of_the_drivers_branch, {"stack", "engine"}),
    Rule(driver.pins_are_installed, {"stack", "engine", "hosts"}),
    Rule(versions.versions_go_together, {"stack", "engine", "serving"}),
    Rule(versions.releases_are_known, {"stack", "engine", "serving"}),
    Rule(environment.pdctls_variables_are_left_alone, {"serving", "secrets", "model", "offline"}),
    Rule(environment.the_hash_seed_is_one, {"serving"}),
    Rule(environment.caches_are_not_doubled, {"serving"}),
    Rule(environment.one_ucx_is_loaded, {"serving", "engine"}),
    Rule(environment.ucx_sees_gpu_memory, {"serving", "engine"}),
    Rule(environment.both_sides_have_a_network, {"serving", "hosts"}),
    Rule(arguments.pdctls_flags_are_left_alone, {"serving"}),
    Rule(arguments.decoders_keep_no_prefixes, {"serving"}),
    Rule(arguments.each_flag_is_given_once, {"serving"}),
    Rule(arguments.statistics_stay_on, {"serving"}),
    Rule(arguments.each_word_stands_alone, {"serving"}),
    Rule(flags.beginnings_fit_one_flag, {"engine", "serving"}),
    Rule(flags.switches_take_no_value, {"engine", "serving"}),
    Rule(flags.flags_are_known, {"engine", "serving"}),
    Rule(flags.flags_have_their_values, {"engine", "serving"}),
    Rule(flags.words_belong_to_flags, {"engine", "serving"}),
    Rule(flags.values_are_vllms, {"engine", "serving"}),
    Rule(secret.each_has_one_source, {"secrets"}),
    Rule(secret.values_stay_out, {"serving"}),
    Rule(secret.names_are_given_once, {"serving", "secrets"}),
    Rule(repositories.repositories_have_their_own_names, {"apt"}),
    Rule(repositories.flat_repositories_have_no_components, {"apt"}),
    Rule(suppress.suppressions_are_allowed, {"suppress"}),
)


def findings(cluster: Cluster, broken: frozenset[str] = frozenset()) -> Iterator[Finding]:
    """What every rule finds, leaving out rules that read a `broken` section."""
    for rule in RULES:
        if not rule.reads & broken:
            yield from rule.check(cluster)
