"""Settings that are the fields of a struct: the type, the limits and the meaning are beside the field.

    class BrokerConfig(msgspec.Struct, frozen=True):
        num_partitions: Annotated[int, About(INT, "Partitions of a topic that does not say.", at_least=1)] = 1

A field's name has underscores for the dots of the setting's.
"""

from typing import Annotated, get_args, get_origin, get_type_hints

import msgspec

from barnabas.services.settings.catalogue.setting import Setting, SettingType, value_text


class About(msgspec.Struct, frozen=True):
    """What the type and default of a field do not say."""

    kind: SettingType
    doc: str
    at_least: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    has_effect: bool = True
    is_dynamic: bool = False
    """True if it can be altered on a running broker: then a part of the node must follow it (`live_config`)."""


def settings_of(struct: type[msgspec.Struct]) -> dict[str, Setting]:
    """The settings among the fields of a struct, by their names in order; fields without `About` are left out."""
    hints = get_type_hints(struct, include_extras=True)
    found = (_setting_of(field, hints[field.name]) for field in msgspec.structs.fields(struct))
    return {setting.name: setting for setting in sorted(filter(None, found), key=lambda setting: setting.name)}


def _setting_of(field: msgspec.structs.FieldInfo, hint: object) -> Setting | None:
    about = next((part for part in get_args(hint) if isinstance(part, About)), None)
    if get_origin(hint) is not Annotated or about is None:
        return None
    return Setting(
        name=field.name.replace("_", "."),
        kind=about.kind,
        default=value_text(field.default) or None,
        doc=about.doc,
        is_read_only=not about.is_dynamic,
        has_effect=about.has_effect,
        at_least=about.at_least,
        at_most=about.at_most,
        choices=about.choices,
    )
