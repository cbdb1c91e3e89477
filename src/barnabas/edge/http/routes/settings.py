"""Settings in the answers of the API: from DescribeConfigs, with their meaning."""

from typing import Any

from barnabas.edge.http import models
from barnabas.edge.http.context import check
from barnabas.services.settings.catalogue.setting import SettingType
from barnabas.services.settings.describe import ConfigSource


def settings_of(answer: Any) -> list[models.Setting]:
    """The settings of the one resource that was asked about."""
    for result in answer.results:
        check(result.error_code, result.error_message)
        return [_setting(each) for each in result.configs]
    return []


def _setting(each: Any) -> models.Setting:
    source = int(each.config_source)
    return models.Setting(
        name=each.name,
        value=None if each.is_sensitive else each.value,
        source=ConfigSource(source).name.lower() if source in [one.value for one in ConfigSource] else str(source),
        is_default=source in (ConfigSource.DEFAULT, ConfigSource.STATIC_BROKER),
        is_read_only=bool(each.read_only),
        is_sensitive=bool(each.is_sensitive),
        type=SettingType(int(each.config_type)).name.lower(),
        meaning=each.documentation,
    )
