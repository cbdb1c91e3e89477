"""The levels of features, by the SDK and by the command."""

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

import barnabas
from barnabas.cli.main import app
from barnabas.client.feature_admin import FeatureAdmin
from barnabas.core.errors import InvalidRequest, InvalidUpdateVersion
from barnabas.core.metadata.levels import ACCESS, GENERATIONS, METADATA_VERSION
from barnabas.testing.embedded import EmbeddedBroker


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with barnabas.embedded() as running:
        yield running


def level(features: FeatureAdmin, name: str) -> int:
    return next(each.level for each in features.find() if each.name == name)


def test_levels_are_listed_and_raised_never_lowered(broker: EmbeddedBroker) -> None:
    features = broker.bus.features
    known = {each.name: each for each in features.find()}
    assert known[METADATA_VERSION].level == known[METADATA_VERSION].highest == ACCESS
    assert known["share.version"].lowest == 0
    features.upgrade({METADATA_VERSION: ACCESS}, dry_run=True)
    for levels in ({METADATA_VERSION: GENERATIONS}, {METADATA_VERSION: 999}, {"nonsense": 1}):
        with pytest.raises(InvalidUpdateVersion):
            features.upgrade(levels)
    with pytest.raises(InvalidRequest, match="name a feature"):
        features.upgrade({})
    assert level(features, METADATA_VERSION) == ACCESS


def test_the_command_shows_them_and_has_nothing_to_raise(broker: EmbeddedBroker) -> None:
    runner, at = CliRunner(), ("--bootstrap", broker.bootstrap)
    shown = runner.invoke(app, ["cluster", "features", *at])
    assert f"{METADATA_VERSION}\t{ACCESS}\t" in shown.output
    done = runner.invoke(app, ["cluster", "upgrade", "--yes", *at])
    assert "every feature is at its highest level" in done.output
    assert runner.invoke(app, ["cluster", "upgrade", "metadata.version=high", *at]).exit_code == 2
    asked = runner.invoke(app, ["cluster", "upgrade", f"metadata.version={ACCESS}", *at])
    assert asked.exit_code == 2  # there is no terminal to confirm at
    would = runner.invoke(app, ["cluster", "upgrade", "--dry-run", f"metadata.version={ACCESS}", *at])
    assert f"would raise metadata.version to {ACCESS}" in would.output
