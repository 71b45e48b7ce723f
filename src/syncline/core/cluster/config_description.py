"""Describing configurations: the value in force, where it comes from, and what it hides.

A value has up to five sources, and the first that has one wins: the topic itself, this broker dynamically, all brokers
dynamically, the broker's file, the default. The others are its synonyms, in that order, under the broker's own names
where those differ.

Kafka's habit, kept here: when the broker's first name for a topic configuration has no value anywhere
(`log.retention.ms` beside `log.retention.hours`), the answer has no synonyms at all and names the default as source,
whichever source the value has.
Source: KIP-226, KIP-133; Kafka's ConfigHelper.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from syncline.model.broker_config import BROKER_CONFIGS
from syncline.model.config_types import ConfigDefinition, UpdateMode, Value, scale_to_ms, show
from syncline.model.kept_configs import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS, THROTTLE_RATES
from syncline.model.topic_config import TOPIC_CONFIGS

_UNKNOWN_TYPE: Final = 0


class ConfigSource(IntEnum):
    """Where a value comes from, with the protocol's numbers."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    LOGGER = 6


class Synonym(NamedTuple):
    """One value that is in force, or hidden by a stronger one."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One configuration in an answer; for an unknown name, `kind` is 0 and `documentation` None."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    is_sensitive: bool
    kind: int
    documentation: str | None
    synonyms: tuple[Synonym, ...]


@dataclass(frozen=True, slots=True)
class BrokerLayers:
    """The three layers of a broker's values."""

    per_broker: Mapping[str, str] = field(default_factory=dict)
    cluster: Mapping[str, str] = field(default_factory=dict)
    static: Mapping[str, str] = field(default_factory=dict)

    def in_order(self) -> tuple[tuple[ConfigSource, Mapping[str, str]], ...]:
        """Return the layers, the strongest first."""
        return (
            (ConfigSource.DYNAMIC_BROKER, self.per_broker),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, self.cluster),
            (ConfigSource.STATIC_BROKER, self.static),
        )

    def value_of(self, definition: ConfigDefinition) -> Value:
        """Return the value in force on the broker."""
        for _, layer in self.in_order():
            text = layer.get(definition.name)
            if text is not None:
                return definition.read(text)
        return definition.default_value()


def describe_topic(
    overrides: Mapping[str, str], layers: BrokerLayers, names: Collection[str] | None = None
) -> tuple[ConfigEntry, ...]:
    """Return the configurations of a topic; all of them when `names` is None or empty."""
    return tuple(
        _topic_entry(definition, overrides, layers)
        for definition in TOPIC_CONFIGS.values()
        if not definition.hidden and (not names or definition.name in names)
    )


def describe_broker(layers: BrokerLayers, names: Collection[str] | None = None) -> tuple[ConfigEntry, ...]:
    """Return the configurations of a broker, including those that are set under unknown names."""
    given = {**layers.static, **layers.cluster, **layers.per_broker}
    known = [definition for definition in BROKER_CONFIGS.values() if not definition.hidden]
    known.extend(definition for name, definition in THROTTLE_RATES.items() if name in given)
    entries = [_broker_entry(definition, layers) for definition in known]
    entries.extend(_unknown_entry(name, layers) for name in given if _definition(name) is None)
    return tuple(entry for entry in entries if not names or entry.name in names)


def describe_cluster_defaults(
    cluster: Mapping[str, str], names: Collection[str] | None = None
) -> tuple[ConfigEntry, ...]:
    """Return only the values that are set dynamically for all brokers."""
    layers = BrokerLayers(cluster=cluster)
    entries = []
    for name in cluster:
        if names and name not in names:
            continue
        definition = _definition(name)
        if definition is None:
            entries.append(_unknown_entry(name, layers))
            continue
        entry = _broker_entry(definition, layers)
        own = tuple(synonym for synonym in entry.synonyms if synonym.source is ConfigSource.DYNAMIC_DEFAULT_BROKER)
        entries.append(
            ConfigEntry(
                entry.name,
                # As it was set: only a broker reads it.
                None if entry.is_sensitive else cluster[name],
                ConfigSource.DYNAMIC_DEFAULT_BROKER,
                entry.read_only,
                entry.is_sensitive,
                entry.kind,
                entry.documentation,
                own,
            )
        )
    return tuple(entries)


def describe_client_metrics(names: Collection[str] | None = None) -> tuple[ConfigEntry, ...]:
    """Return the configurations of a subscription to clients' metrics, whose name says nothing: there are none."""
    return tuple(_fixed_entry(each) for each in CLIENT_METRICS_CONFIGS.values() if not names or each.name in names)


def describe_group(names: Collection[str] | None = None) -> tuple[ConfigEntry, ...]:
    """Return the configurations of groups of the newer kinds: Kafka's defaults, as Syncline has no such groups."""
    return tuple(_fixed_entry(each) for each in GROUP_CONFIGS.values() if not names or each.name in names)


def describe_loggers(levels: Mapping[str, str], names: Collection[str] | None = None) -> tuple[ConfigEntry, ...]:
    """Return the levels of a broker's loggers, by the names of the loggers (KIP-412)."""
    return tuple(
        ConfigEntry(
            name,
            level,
            ConfigSource.LOGGER,
            read_only=True,
            is_sensitive=False,
            kind=_UNKNOWN_TYPE,
            documentation="",
            synonyms=(),
        )
        for name, level in levels.items()
        if not names or name in names
    )


def _fixed_entry(definition: ConfigDefinition) -> ConfigEntry:
    value = show(definition.default_value())
    return ConfigEntry(
        definition.name,
        value,
        ConfigSource.DEFAULT,
        # No request can change it.
        read_only=True,
        is_sensitive=False,
        kind=int(definition.kind),
        documentation=definition.documentation,
        synonyms=tuple(Synonym(name, value, ConfigSource.DEFAULT) for name in definition.synonyms),
    )


def _topic_entry(definition: ConfigDefinition, overrides: Mapping[str, str], layers: BrokerLayers) -> ConfigEntry:
    synonyms = _broker_synonyms(definition.synonyms, layers) if definition.synonyms else ()
    own = overrides.get(definition.name)
    if own is None:
        value = _inherited(definition, layers)
    else:
        value = definition.parse(own)
        synonyms = (Synonym(definition.name, show(value), ConfigSource.TOPIC), *synonyms)
    return ConfigEntry(
        definition.name,
        show(value),
        synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        read_only=False,
        is_sensitive=False,
        kind=int(definition.kind),
        documentation=definition.documentation,
        synonyms=synonyms,
    )


def _inherited(definition: ConfigDefinition, layers: BrokerLayers) -> Value:
    """Return the value that a topic without an override takes from its broker."""
    for name in definition.synonyms:
        value = layers.value_of(BROKER_CONFIGS[name])
        if value is None:
            continue
        scale = scale_to_ms(name)
        if scale == 1:
            return value
        assert isinstance(value, int), "a duration"
        return value * scale
    return definition.default_value()


def _broker_entry(definition: ConfigDefinition, layers: BrokerLayers) -> ConfigEntry:
    synonyms = _broker_synonyms((definition.name, *definition.synonyms), layers)
    return ConfigEntry(
        definition.name,
        None if definition.is_sensitive else show(layers.value_of(definition)),
        synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        read_only=definition.update_mode is UpdateMode.READ_ONLY,
        is_sensitive=definition.is_sensitive,
        kind=int(definition.kind),
        documentation=definition.documentation,
        synonyms=synonyms,
    )


def _unknown_entry(name: str, layers: BrokerLayers) -> ConfigEntry:
    # The value may be a secret, so the answer hides it.
    synonyms = tuple(Synonym(name, None, source) for source, layer in layers.in_order() if name in layer)
    return ConfigEntry(
        name,
        None,
        synonyms[0].source,
        read_only=True,
        is_sensitive=True,
        kind=_UNKNOWN_TYPE,
        documentation=None,
        synonyms=synonyms,
    )


def _broker_synonyms(names: tuple[str, ...], layers: BrokerLayers) -> tuple[Synonym, ...]:
    found = list(_given_synonyms(names, layers))
    while found and found[0].name != names[0]:
        del found[0]
    sources = [each.source for each in found]
    assert sources == sorted(sources), f"synonyms of {names[0]} are not in the order of their strength: {sources}"
    return tuple(found)


def _given_synonyms(names: tuple[str, ...], layers: BrokerLayers) -> Iterator[Synonym]:
    for source, layer in layers.in_order():
        for name in names:
            if name in layer:
                definition = _definition(name)
                hidden = definition is None or definition.is_sensitive
                yield Synonym(name, None if hidden else layer[name], source)
    for name in names:
        definition = _definition(name)
        if definition is not None and definition.default is not None:
            yield Synonym(
                name, None if definition.is_sensitive else show(definition.default_value()), ConfigSource.DEFAULT
            )


def _definition(name: str) -> ConfigDefinition | None:
    return BROKER_CONFIGS.get(name) or THROTTLE_RATES.get(name)
