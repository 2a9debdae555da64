"""Commands for feature flags and deprecated features."""

from ..call import Call
from ..command import CHECKS, COLUMNS, NODES, columns, get
from ..errors import UNAVAILABLE, USAGE, CommandError


def enable_banner(call: Call) -> str:
    name = call.arguments[0]
    return "Enabling all feature flags ..." if name == "all" else f'Enabling feature flag "{name}" ...'


def enable_feature_flag(call: Call) -> None:
    """Raises CommandError (64) for an unknown feature flag."""
    name = call.arguments[0]
    known = [flag["name"] for flag in call.get("feature-flags")]
    if name not in (*known, "all"):
        raise CommandError(USAGE, f"This feature flag is not supported by node {call.node}")
    for each in known if name == "all" else [name]:
        call.put("feature-flags/{name}/enable", {"name": each}, name=each)


def check_deprecated_features(call: Call) -> str:
    """Raises CommandError (69) if a deprecated feature is in use."""
    used = call.get("deprecated-features/used")
    if used:
        names = ", ".join(str(one["name"]) for one in used)
        raise CommandError(UNAVAILABLE, f"Cluster reported deprecated features in use: {names}")
    return "Cluster reported no deprecated features in use"


# fmt: off
NODES(f"list_feature_flags {COLUMNS}: Lists feature flags", "Listing feature flags ...", get("feature-flags"),
      columns=columns("name state stability provided_by desc doc_url"), default="name state")
NODES("enable_feature_flag [--opt-in] [--experimental] <feature_flag>: Enables a feature flag",
      enable_banner, enable_feature_flag)
NODES(f"list_deprecated_features [--used] {COLUMNS}: Lists deprecated features",
      lambda call: f"Listing deprecated features{' in use' if call.flag('used') else ''} ...",
      lambda call: call.get("deprecated-features/used" if call.flag("used") else "deprecated-features"),
      columns=columns("name deprecation_phase provided_by desc doc_url"),
      default="name deprecation_phase provided_by desc")
CHECKS("check_if_any_deprecated_features_are_used: Fails if a deprecated feature is used",
       "Checking if any deprecated features are used ...", check_deprecated_features)
